// Package supervisor builds the service from one Config and runs it: the worker's manager, the API, and the order in which
// they stop. It must not touch a GPU or a checkpoint file.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
	"lilypad/supervisor/api"
	"lilypad/supervisor/chat"
	"lilypad/supervisor/config"
	"lilypad/supervisor/process"
)

// Options are what commands and tests may replace.
type Options struct {
	Command []string       // of the worker; empty means this binary with the argument "worker"
	Env     []string       // the worker's environment is picked from it; nil means os.Environ()
	Limits  process.Limits // of the manager; zero durations mean the defaults
}

// Supervisor is the service. It runs once.
type Supervisor struct {
	cfg     config.Config
	log     logrus.FieldLogger
	workers *process.Manager
}

// New prepares the service; nothing is started or opened. The error says what is wrong with cfg.
func New(cfg config.Config, log logrus.FieldLogger, opt Options) (*Supervisor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Supervisor{cfg: cfg, log: log, workers: process.New(process.Config{
		Command: opt.Command,
		Env:     opt.Env,
		Limits:  opt.Limits,
		Load: protocol.LoadRequest{
			Model: cfg.Model, Backend: cfg.Backend, Quantize: cfg.Quantize, Context: cfg.Context,
			StateBudget: cfg.StateBudget << 20, Parallel: cfg.Parallel, Chunk: cfg.Chunk, Tuning: filepath.Join(cfg.Data, protocol.TuningFile),
		},
	}, log)}, nil
}

// Workers gives access to the engine without HTTP. It has workers while Run runs.
func (s *Supervisor) Workers() *process.Manager { return s.workers }

// Run serves until ctx ends and then stops in order: no new connections; running answers get the drain time, then an error
// frame; then the worker. It calls ready once the model is loaded and requests are served. A model that can't run, or an
// address that can't be listened on, is an error of one sentence.
func (s *Supervisor) Run(ctx context.Context, ready func(net.Addr)) error {
	listener, err := s.listen()
	if err != nil {
		return err
	}
	working, stopWorker := context.WithCancel(context.WithoutCancel(ctx))
	managed := make(chan error, 1)
	go func() { managed <- s.workers.Run(working) }()

	web := s.newWeb(listener)
	err = s.wait(ctx, web, listener.Addr(), ready)
	web.stop(s.cfg.Drain)
	stopWorker()
	if failed := <-managed; err == nil {
		err = failed
	}
	return err
}

// wait returns when ctx ends, or with an error when serving has become impossible.
func (s *Supervisor) wait(ctx context.Context, web *web, addr net.Addr, ready func(net.Addr)) error {
	loading, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded := make(chan error, 1)
	go func() {
		w, err := s.workers.Worker(loading)
		if err == nil {
			err = s.canChat(w.Info)
		}
		loaded <- err
	}()
	select {
	case err := <-loaded:
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	case err := <-web.failed:
		cancel()
		<-loaded
		return err
	}
	s.log.WithFields(logrus.Fields{"component": "supervisor", "address": addr.String()}).Info("ready")
	if ready != nil {
		ready(addr)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-web.failed:
		return err
	}
}

// canChat refuses a model whose chat template is missing or can't be used: each of its requests would fail.
func (s *Supervisor) canChat(info protocol.ModelInfo) error {
	if info.ChatTemplate == "" {
		return fmt.Errorf("model %s has no chat template; put its chat_template.jinja beside its config.json", info.Name)
	}
	_, err := chat.NewTemplate(chat.TemplateInfo{
		Source: info.ChatTemplate, BOS: info.BOS, EOS: info.EOS, Added: info.Added, AllowControl: s.cfg.Control})
	if err != nil {
		return fmt.Errorf("the chat template of model %s can't be used: %w", info.Name, err)
	}
	return nil
}

// listen opens the configured address.
func (s *Supervisor) listen() (net.Listener, error) {
	address, err := s.cfg.Address()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program, perhaps by a lilypad that runs already; stop it or choose another address with --listen", address)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", address, err)
	}
	return listener, nil
}

// health tells the API how the engine is.
func (s *Supervisor) health() api.Health {
	st := s.workers.Status()
	h := api.Health{Incarnation: st.Incarnation, Reason: string(st.State)}
	switch {
	case st.State == process.Ready && st.Progressing():
		h.Ready = true
	case st.State == process.Ready:
		h.Reason = "stalled"
	case st.State == process.Loading:
		h.Done, h.Total = st.Load.Done, st.Load.Total
	case st.Err != nil:
		h.Reason = st.Err.Error()
	}
	return h
}

// web is the HTTP side.
type web struct {
	server *http.Server
	end    context.CancelFunc // ends running answers with an error frame
	failed chan error         // serving ended by itself
	served chan struct{}      // closed when serving has ended
}

// grace is what answers get to write their error frame and clients to take it.
const grace = 2 * time.Second

func (s *Supervisor) newWeb(listener net.Listener) *web {
	stop, end := context.WithCancel(context.Background())
	w := &web{end: end, failed: make(chan error, 1), served: make(chan struct{})}
	w.server = &http.Server{
		Handler: api.New(api.Options{
			Workers: s.workers, Health: s.health, Log: s.log, Stop: stop, Started: time.Now(), Control: s.cfg.Control,
		}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          quiet(s.log),
	}
	go func() {
		defer close(w.served)
		if err := w.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			w.failed <- fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		}
	}()
	return w
}

// stop takes no more connections and gives running answers the drain time.
func (w *web) stop(drain time.Duration) {
	timer := time.AfterFunc(drain, w.end)
	ctx, cancel := context.WithTimeout(context.Background(), drain+grace)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		_ = w.server.Close() // clients that don't take their error frame
	}
	timer.Stop()
	w.end()
	<-w.served
}
