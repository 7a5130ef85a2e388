package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"lilypad/protocol"
)

const (
	evidenceTime = 250 * time.Millisecond  // from the first sign of death to the end of stderr
	exitTime     = 1500 * time.Millisecond // and to the exit status, should the kernel be that slow
	reapTime     = 10 * time.Second        // for a killed process to be gone; freeing tens of gigabytes takes a while
	pingTime     = time.Second             // deadline of a ping
	watchTime    = 100 * time.Millisecond  // between two looks at the heartbeat
)

// child is one incarnation from spawn to burial.
type child struct {
	worker *Worker
	cfg    *Config
	log    logrus.FieldLogger
	logs   *workerLog
	proc   *process
	plug   *plugin.Client
	client *plugin.GRPCClient // nil until connected
	engine protocol.Engine

	lifeline *os.File // the worker dies when this is closed
	oomBase  int64    // out-of-memory kills before the start
	answers  atomic.Bool
	quiet    atomic.Int64 // time.Duration without progress
	watchers sync.WaitGroup
	unwatch  context.CancelFunc
	tempDir  string // of go-plugin, for the socket

	mu      sync.Mutex
	beats   *protocol.Heartbeat // nil after burial
	last    protocol.Beat       // the last beat, after burial
	ours    Cause               // why we killed it
	sign    string              // what was noticed first
	failure error               // why the launch failed although the process lives
	hints   []string            // evidence found while it lived
}

// newChild prepares an incarnation; start spawns it.
func newChild(cfg *Config, incarnation int, log logrus.FieldLogger) (*child, error) {
	log = log.WithField("incarnation", incarnation)
	beats, page, err := protocol.NewHeartbeat(cfg.RunDir)
	if err != nil {
		return nil, err
	}
	lifelineR, lifeline, err := os.Pipe()
	if err != nil {
		beats.Close()
		page.Close()
		return nil, fmt.Errorf("lifeline: %w", err)
	}
	c := &child{worker: newWorker(incarnation), cfg: cfg, log: log, logs: &workerLog{log: log}, lifeline: lifeline, beats: beats}
	c.answers.Store(true)
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.ExtraFiles = []*os.File{lifelineR, page} // protocol.LifelineFD, protocol.HeartbeatFD
	cmd.SysProcAttr = workerAttr()
	c.proc = newProcess(cmd, c.logs)
	c.plug = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  protocol.Handshake,
		Plugins:          plugin.PluginSet{protocol.PluginName: &protocol.Plugin{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     cfg.Limits.Start,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: cfg.RunDir},
		SyncStdout:       &lineWriter{logs: c.logs},
		SyncStderr:       &lineWriter{logs: c.logs},
		Logger:           pluginLogger(log),
		GRPCDialOptions:  []grpc.DialOption{grpc.WithIdleTimeout(0)}, // an idle connection must still tell of a death
		RunnerFunc: func(_ hclog.Logger, wants *exec.Cmd, tempDir string) (runner.Runner, error) {
			c.tempDir = tempDir
			cmd.Env = append(append([]string(nil), cfg.Env...), wants.Env...)
			return c.proc, nil
		},
	})
	return c, nil
}

// start spawns the worker, shakes hands and loads the checkpoint. An error of the ending context or a refusal leaves a
// living process, which the caller stops; any other error is a death, which the caller buries.
func (c *child) start(ctx context.Context, progress func(protocol.LoadProgress)) error {
	watch, unwatch := context.WithCancel(context.Background())
	c.unwatch = unwatch
	c.watchers.Go(func() { c.watchExit(watch) })
	c.watchers.Go(func() { c.watchProgress(watch) })
	hurry := context.AfterFunc(ctx, func() { c.kill(Ours, "") }) // nothing is loaded yet, so nothing needs an order
	err := c.connect()
	hurry()
	for _, f := range c.proc.cmd.ExtraFiles {
		f.Close()
	}
	if err != nil {
		return c.fail(fmt.Errorf("start worker: %w", err))
	}
	c.watchers.Go(func() { c.watchConnection(watch) })
	c.watchers.Go(func() { c.ping(watch) })
	c.worker.Info, err = c.engine.Load(ctx, c.cfg.Load, func(p protocol.LoadProgress) error {
		progress(p)
		return nil
	})
	switch {
	case err == nil, ctx.Err() != nil, refused(err):
		return err
	}
	return c.fail(fmt.Errorf("load: %w", err))
}

// connect makes the connection and checks that the other side speaks our protocol. It may block in go-plugin, which
// knows no deadline for a stopped worker; watchProgress kills a worker that takes too long, and that ends it.
func (c *child) connect() error {
	proto, err := c.plug.Client()
	if err != nil {
		return err
	}
	c.client = proto.(*plugin.GRPCClient) // the only allowed protocol
	raw, err := proto.Dispense(protocol.PluginName)
	if err != nil {
		return err
	}
	c.engine = raw.(protocol.Engine)
	c.worker.Engine = c.engine
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Limits.Start)
	defer cancel()
	hello, err := c.engine.Hello(ctx)
	if err == nil && hello.Version != protocol.Version {
		err = fmt.Errorf("worker speaks protocol %d, want %d", hello.Version, protocol.Version)
	}
	return err
}

// refused reports whether a load failed for good: another try would end the same way.
func refused(err error) bool {
	code := protocol.CodeOf(err)
	return code == protocol.CodeCheckpoint || code == protocol.CodeInvalid
}

// fail notes why a launch failed. The process may be dead or alive.
func (c *child) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = err
	return err
}

// notice records the first sign of death and wakes everybody.
func (c *child) notice(sign string) {
	c.mu.Lock()
	if c.sign == "" {
		c.sign = sign
	}
	c.mu.Unlock()
	c.worker.notice()
}

// kill ends the worker at once and remembers why, unless it is dead already.
func (c *child) kill(cause Cause, hint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc.ended() {
		return
	}
	if c.ours == "" && c.sign == "" {
		c.ours = cause
		if hint != "" {
			c.hints = append(c.hints, hint)
		}
	}
	c.proc.signal(syscall.SIGKILL)
}

// beat is the last heartbeat.
func (c *child) beat() protocol.Beat {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.beats != nil {
		return c.beats.Read()
	}
	return c.last
}

func (c *child) watchExit(ctx context.Context) {
	select {
	case <-c.proc.exited:
		c.notice("exit")
	case <-ctx.Done():
	}
}

// watchConnection sees the connection break, about a millisecond after a death. gRPC makes a connection usable a moment
// before it calls it ready, so it may still be connecting here.
func (c *child) watchConnection(ctx context.Context) {
	conn := c.client.Conn
	for state := conn.GetState(); state == connectivity.Ready || state == connectivity.Connecting; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
	}
	c.notice("connection")
}

// watchProgress kills a worker whose heartbeat makes no progress while it should.
func (c *child) watchProgress(ctx context.Context) {
	s := stall{limits: c.cfg.Limits, interval: watchTime}
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.worker.gone:
			return
		case now := <-tick.C:
			b := c.beat()
			stalled := s.observe(now, b, c.answers.Load())
			c.quiet.Store(int64(s.quiet))
			if stalled {
				c.kill(Stalled, fmt.Sprintf("no progress for %s in %s", s.quiet.Round(time.Millisecond), b.Phase))
				c.notice("heartbeat")
				return
			}
		}
	}
}

// ping keeps answers up to date.
func (c *child) ping(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.worker.gone:
			return
		case <-time.After(c.cfg.Limits.Ping):
		}
		pctx, cancel := context.WithTimeout(ctx, pingTime)
		_, err := c.engine.Hello(pctx)
		cancel()
		c.answers.Store(err == nil)
	}
}

// bury waits for evidence, gives the verdict, and frees everything that belonged to the worker. It has time for the exit
// status, which tells most: no other worker can start before this one's memory is free.
func (c *child) bury(pressure Pressure, oomKills int64) Verdict {
	if c.proc.pid.Load() != 0 {
		evidence, limit := time.After(evidenceTime), exitTime
		if c.failure != nil { // it may well be alive
			limit = evidenceTime
		}
		if c.exits(limit) {
			select {
			case <-c.proc.stderrDone:
			case <-evidence:
			}
		}
	}
	c.notice("exit")
	r := remains{lines: c.logs.raw(), pressure: pressure, oomKills: oomKills - c.oomBase}
	if c.proc.ended() {
		r.known, r.status = true, c.proc.state.Sys().(syscall.WaitStatus)
	}
	v := c.verdict(r)
	c.proc.signal(syscall.SIGKILL)
	c.worker.settle(v)
	c.free()
	return v
}

// verdict puts together what is known.
func (c *child) verdict(r remains) Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.ours = c.ours
	v := Verdict{Incarnation: c.worker.Incarnation, Sign: c.sign, Beat: c.beats.Read(), At: time.Now()}
	v.Cause, v.Signal, v.ExitCode, v.Evidence = classify(r)
	v.Evidence = append(v.Evidence, c.hints...)
	if !r.known && c.failure == nil {
		v.Evidence = append(v.Evidence, "the connection ended, but the process did not exit")
	}
	if c.failure != nil {
		v.Evidence = append(v.Evidence, short(c.failure.Error()))
		switch code := protocol.CodeOf(c.failure); {
		case c.proc.killed.Load():
			v.Cause, v.Signal = Exited, ""
		case r.known: // the process ended by itself and says more
		case code == protocol.CodeMemory:
			v.Cause = Jetsam
		case code == protocol.CodeDevice:
			v.Cause = GPUFault
		}
	}
	return v
}

// free waits for the dead process and releases what it held.
func (c *child) free() {
	if c.proc.pid.Load() != 0 {
		select {
		case <-c.proc.exited:
		case <-time.After(reapTime):
			c.log.Error("killed worker does not go away")
		}
		c.proc.signal(syscall.SIGKILL) // children that it left behind
		c.proc.release()
		c.proc.close()
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		c.plug.Kill()
	}()
	select {
	case <-killed:
	case <-time.After(reapTime):
		c.log.Error("go-plugin does not let go of the worker")
	}
	c.unwatch()
	c.watchers.Wait()
	if c.tempDir != "" {
		os.RemoveAll(c.tempDir)
	}
	c.lifeline.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.beats.Read()
	c.beats.Close()
	c.beats = nil
}

// stop ends a living worker in order: drain, unload, shutdown, SIGTERM, SIGKILL. A worker that does not answer is killed
// at once. The caller buries it.
func (c *child) stop() {
	c.mu.Lock()
	c.ours = Ours
	c.mu.Unlock()
	call := func(limit time.Duration, f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		return f(ctx)
	}
	hello := func(ctx context.Context) error { _, err := c.engine.Hello(ctx); return err }
	if c.engine == nil || call(pingTime, hello) != nil {
		c.proc.signal(syscall.SIGKILL)
		return
	}
	if err := call(c.cfg.Limits.Drain, c.engine.Drain); err != nil && !errors.Is(err, protocol.ErrWorkerGone) {
		c.log.WithField("err", err).Warn("worker did not drain, its generations are cut")
	}
	if err := call(c.cfg.Limits.Unload, c.engine.Unload); err != nil && !errors.Is(err, protocol.ErrWorkerGone) {
		c.log.WithField("err", err).Warn("worker did not unload")
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.client.Close() // asks for a shutdown; without a deadline, but the kill below ends it
	}()
	if !c.exits(shutdownTime) {
		c.proc.signal(syscall.SIGTERM)
		if !c.exits(termTime) {
			c.proc.signal(syscall.SIGKILL)
		}
	}
	<-closed
}

// Patience of an ordered stop.
const (
	shutdownTime = 3 * time.Second
	termTime     = time.Second
)

// exits waits for the process to end.
func (c *child) exits(limit time.Duration) bool {
	select {
	case <-c.proc.exited:
		return true
	case <-time.After(limit):
		return false
	}
}
