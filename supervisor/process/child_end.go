package process

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"lilypad/protocol"
)

// Patience of a burial.
const (
	evidenceTime = 250 * time.Millisecond  // from the first sign of death to the end of stderr
	exitTime     = 1500 * time.Millisecond // and to the exit status, should the kernel be that slow
	reapTime     = 10 * time.Second        // for a killed process to be gone; freeing tens of gigabytes takes a while
)

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
