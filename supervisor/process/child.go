package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"

	"lilypad/protocol"
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
