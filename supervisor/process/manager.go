package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
)

// ErrUnstable says that workers died again and again before they finished a load; another try follows after a pause.
var ErrUnstable = errors.New("the worker keeps dying")

// ErrStopped says that the manager has been told to stop.
var ErrStopped = errors.New("the worker is being stopped")

// Manager keeps one worker alive.
type Manager struct {
	cfg      Config
	log      logrus.FieldLogger
	pressure *pressures

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change below
	status  Status
	child   *child  // the incarnation that runs
	worker  *Worker // set while it is ready
}

// New returns a manager; Run starts the first worker.
func New(cfg Config, log logrus.FieldLogger) *Manager {
	return &Manager{
		cfg: cfg, log: log.WithField("component", "process"), changed: make(chan struct{}),
		status: Status{State: Starting, Since: time.Now(), Restarts: map[Cause]int{}},
	}
}

// Run keeps exactly one worker alive until ctx ends, then stops it in order and returns nil. A checkpoint that the worker
// refuses is not tried again: Worker and Status tell why. An error means that no worker could ever be started.
func (m *Manager) Run(ctx context.Context) error {
	cfg, err := m.cfg.withDefaults()
	if err == nil {
		cfg.RunDir, err = openRunDir(cfg.RunDir)
	}
	if err != nil {
		err = fmt.Errorf("prepare the worker: %w", err)
		m.set(func(s *Status) { s.State, s.Err = Stopped, err })
		return err
	}
	m.cfg = cfg
	m.pressure = &pressures{read: cfg.Pressure}
	var sampler sync.WaitGroup
	sampling, stop := context.WithCancel(ctx)
	defer sampler.Wait()
	defer stop()
	sampler.Go(func() { m.sample(sampling) })
	m.keepAlive(ctx)
	m.set(func(s *Status) { s.State, s.Err = Stopped, ErrStopped })
	return nil
}

// keepAlive runs one incarnation after the other until ctx ends.
func (m *Manager) keepAlive(ctx context.Context) {
	rule := restarts{limits: m.cfg.Limits}
	for n := 1; ctx.Err() == nil; n++ {
		verdict, loaded, err := m.live(ctx, n)
		if err != nil && refused(err) {
			m.log.WithField("err", err).Debug("worker refuses the checkpoint") // whoever waits for a worker gets the error
			m.set(func(s *Status) { s.State, s.Err = Refused, err })
			<-ctx.Done()
			return
		}
		if ctx.Err() != nil {
			return
		}
		m.log.WithFields(logrus.Fields{
			"incarnation": n, "cause": verdict.Cause, "signal": verdict.Signal, "exit_code": verdict.ExitCode, "sign": verdict.Sign,
			"phase": verdict.Beat.Phase, "request": verdict.Beat.Request, "evidence": verdict.Evidence,
		}).Warn("worker died")
		wait, memory, open := rule.after(verdict.Cause, loaded)
		m.pause(ctx, verdict, wait, memory, open, rule.barren)
	}
}

// live is the life of one incarnation. The error is a refusal of the checkpoint; otherwise the verdict tells the end.
func (m *Manager) live(ctx context.Context, n int) (v Verdict, loaded bool, err error) {
	m.set(func(s *Status) {
		s.State, s.Err, s.Incarnation, s.PID, s.Load, s.Until = Starting, nil, n, 0, protocol.LoadProgress{}, time.Time{}
	})
	started := time.Now()
	c, err := newChild(&m.cfg, n, m.log)
	if err != nil {
		m.log.WithField("err", err).Error("cannot prepare a worker")
		v := Verdict{Cause: Exited, ExitCode: -1, Incarnation: n, Evidence: []string{short(err.Error())}, At: time.Now()}
		return v, false, nil
	}
	c.oomBase = m.pressure.sample(started).OOMKills
	m.setChild(c, nil)
	defer m.setChild(nil, nil)
	err = c.start(ctx, func(p protocol.LoadProgress) {
		m.set(func(s *Status) { s.State, s.PID, s.Load = Loading, int(c.proc.pid.Load()), p })
	})
	if err == nil {
		loaded = true
		m.setChild(c, c.worker)
		m.log.WithFields(logrus.Fields{
			"incarnation": n, "pid": int(c.proc.pid.Load()), "model": c.worker.Info.Name, "elapsed_ms": time.Since(started).Milliseconds(),
		}).Info("worker is ready")
		select {
		case <-c.worker.gone:
		case <-ctx.Done():
		}
	}
	select {
	case <-c.worker.gone:
	default:
		if ctx.Err() != nil || refused(err) {
			m.set(func(s *Status) {
				if s.State = Refused; ctx.Err() != nil {
					s.State, s.Err = Stopping, ErrStopped
				}
			})
			c.stop()
		}
	}
	m.setChild(c, nil)
	p := m.pressure.sample(time.Now())
	v = c.bury(m.pressure.worst(), p.OOMKills)
	return v, loaded, err
}

// pause waits until the next start is due.
func (m *Manager) pause(ctx context.Context, v Verdict, wait time.Duration, memory, open bool, deaths int) {
	m.set(func(s *Status) {
		s.Restarts[v.Cause]++
		s.Last = &v
		s.State, s.Until = Backoff, time.Now().Add(wait)
		if open {
			s.State, s.Err = Broken, fmt.Errorf("%w: %d starts failed, the last one: %s", ErrUnstable, deaths, v.Cause)
		}
	})
	for timer := time.After(wait); ; timer = time.After(time.Second) {
		select {
		case <-ctx.Done():
			return
		case <-timer:
		}
		if !memory || m.pressure.sample(time.Now()).Level <= PressureNormal {
			return
		}
	}
}

// sample reads the memory pressure once a second, to know what it was before a death.
func (m *Manager) sample(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			m.pressure.sample(now)
		}
	}
}

// Worker waits for a ready worker. It returns at once with the error if the checkpoint was refused (protocol.CodeOf tells),
// if workers keep dying (ErrUnstable), or if the manager stops (ErrStopped).
func (m *Manager) Worker(ctx context.Context) (*Worker, error) {
	for {
		m.mu.Lock()
		w, err, changed := m.worker, m.status.Err, m.changed
		m.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if w != nil {
			select {
			case <-w.gone: // not yet noticed by Run
			default:
				return w, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Kill ends a worker at once; its verdict will have the cause, Ours or Stalled. A worker that is gone is left alone.
func (m *Manager) Kill(w *Worker, cause Cause) {
	m.mu.Lock()
	c := m.child
	m.mu.Unlock()
	if c != nil && c.worker == w {
		c.kill(cause, "")
	}
}

// set changes the status and wakes all who wait for a change.
func (m *Manager) set(f func(*Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.status.State
	f(&m.status)
	if m.status.State != state {
		m.status.Since = time.Now()
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// setChild says which incarnation runs and, once it is ready, which worker serves.
func (m *Manager) setChild(c *child, ready *Worker) {
	m.set(func(s *Status) {
		m.child, m.worker = c, ready
		if ready != nil {
			s.State, s.PID = Ready, int(c.proc.pid.Load())
		}
	})
}
