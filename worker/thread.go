package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"lilypad/protocol"
)

// task is a request on the compute thread. Its methods are called there only.
type task interface {
	// step computes one unit, a prefill chunk or a decode step, and says whether that was the last.
	step() (last bool, err error)
	// prefilling tells which of the two the next unit is.
	prefilling() bool
	// full says that the caller has to take events first.
	full() bool
	// free gives back what the task holds, when it is over for whatever reason.
	free()
	// tell lets the caller know that it is over, and why.
	tell(err error)
	// common is the part that all tasks share.
	common() *request
}

// request is what the thread knows of every task.
type request struct {
	id       string
	ctx      context.Context // of the call, which crosses to the compute thread here
	pausedAt time.Time       // since when the caller has not taken events; zero while it does
}

// thread owns the seat that computes. A panic on it is not recovered: states may be half written, and the supervisor starts
// another worker and replays.
type thread struct {
	parallel int
	opt      Options
	after    func() // called after each unit and when a task ends

	mu      sync.Mutex
	waiting []task // first in, first out
	active  []task // in turn: the next to run first; only the goroutine changes it
	stopped bool

	wake chan struct{} // capacity 1
	done chan struct{}

	// owed is how long decode steps may still run before the next prefill chunk, while some request decodes: as long as
	// the last chunk took, so that both sides get half of the time whatever a chunk costs.
	owed time.Duration
	idle bool // the heartbeat says so
}

// newThread starts computing on a seat, which it closes at the end. after is called there after each unit, closing when
// it stops.
func newThread(at seat, parallel int, opt Options, after, closing func()) *thread {
	t := &thread{parallel: parallel, opt: opt, after: after, wake: make(chan struct{}, 1), done: make(chan struct{})}
	at <- func() {
		defer close(t.done)
		t.run()
		closing()
	}
	close(at)
	return t
}

// submit queues a task; after stop it is an error and the task is not ended.
func (t *thread) submit(k task) error {
	t.mu.Lock()
	if t.stopped {
		t.mu.Unlock()
		return errDraining()
	}
	t.waiting = append(t.waiting, k)
	t.mu.Unlock()
	t.ring()
	return nil
}

// ring makes the goroutine look again at its tasks.
func (t *thread) ring() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// stop ends all tasks with an error of protocol.CodeDraining and waits for the goroutine or for ctx.
func (t *thread) stop(ctx context.Context) error {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.ring()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// counts reports the tasks that are interleaved and those that wait for a place.
func (t *thread) counts() (active, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.active), len(t.waiting)
}

func (t *thread) run() {
	for {
		if t.admit() {
			t.finish()
			return
		}
		if k := t.next(time.Now()); k != nil {
			t.unit(k)
		} else {
			t.sleep()
		}
	}
}

// admit ends tasks whose caller has gone, moves waiting ones to free places, and says whether to stop.
func (t *thread) admit() (stop bool) {
	t.mu.Lock()
	var gone []task
	leave := func(k task) bool {
		if k.common().ctx.Err() == nil {
			return false
		}
		gone = append(gone, k)
		return true
	}
	t.active = slices.DeleteFunc(t.active, leave)
	t.waiting = slices.DeleteFunc(t.waiting, leave)
	for len(t.waiting) > 0 && len(t.active) < t.parallel {
		t.active, t.waiting = append(t.active, t.waiting[0]), t.waiting[1:]
	}
	stop = t.stopped
	t.mu.Unlock()
	for _, k := range gone {
		t.over(k, k.common().ctx.Err())
	}
	return stop
}

// over ends k, which is in no line any more. The numbers that after makes visible are right when the caller hears.
func (t *thread) over(k task, err error) {
	k.free()
	t.after()
	k.tell(err)
}

// next picks the task whose turn it is, or nil when none can run.
func (t *thread) next(now time.Time) task {
	var decoder, prefiller, slow task
	for _, k := range t.active {
		r := k.common()
		if !k.full() {
			r.pausedAt = time.Time{}
		} else if r.pausedAt.IsZero() {
			r.pausedAt = now
		} else if now.Sub(r.pausedAt) >= t.opt.ReaderDeadline {
			slow = k
		}
		switch {
		case !r.pausedAt.IsZero():
		case k.prefilling() && prefiller == nil:
			prefiller = k
		case !k.prefilling() && decoder == nil:
			decoder = k
		}
	}
	if slow != nil {
		t.remove(slow)
		t.over(slow, protocol.Errorf(protocol.CodeSlowReader, "the caller took no events for %v", t.opt.ReaderDeadline))
	}
	switch {
	case decoder == nil:
		t.owed = 0
		return prefiller
	case prefiller == nil || t.owed > 0:
		return decoder
	}
	return prefiller
}

// crowd says that another request than k decodes.
func (t *thread) crowd(k task) bool {
	return slices.ContainsFunc(t.active, func(o task) bool { return o != k && !o.prefilling() })
}

// unit computes one unit of k and sends it to the end of the line.
func (t *thread) unit(k task) {
	prefill := k.prefilling()
	phase := protocol.PhaseDecode
	if prefill {
		phase = protocol.PhasePrefill
	}
	t.idle = false
	t.opt.Heartbeat.Begin(phase, k.common().id)
	start := time.Now()
	last, err := k.step()
	took := time.Since(start)
	t.opt.Heartbeat.Progress()
	if prefill {
		t.owed = took
	} else {
		t.owed = max(0, t.owed-took)
	}
	t.remove(k)
	if last || err != nil {
		t.over(k, err)
		return
	}
	t.mu.Lock()
	t.active = append(t.active, k)
	t.mu.Unlock()
	t.after()
}

func (t *thread) remove(k task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active = slices.DeleteFunc(t.active, func(o task) bool { return o == k })
}

// sleep waits until somebody rings or a slow reader's time is up.
func (t *thread) sleep() {
	if !t.idle {
		t.opt.Heartbeat.Begin(protocol.PhaseIdle, "")
		t.idle = true
	}
	var alarm <-chan time.Time
	var oldest time.Time
	for _, k := range t.active {
		if at := k.common().pausedAt; !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
			alarm = time.After(time.Until(at.Add(t.opt.ReaderDeadline)))
		}
	}
	select {
	case <-t.wake:
	case <-alarm:
	}
}

// finish ends everything.
func (t *thread) finish() {
	t.opt.Heartbeat.Begin(protocol.PhaseUnload, "")
	t.mu.Lock()
	tasks := slices.Concat(t.active, t.waiting)
	t.active, t.waiting = nil, nil
	t.mu.Unlock()
	for _, k := range tasks {
		t.over(k, errDraining())
	}
}
