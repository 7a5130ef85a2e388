package cpu

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestAbsence(t *testing.T) {
	const unit = 100 * time.Microsecond
	now := time.Unix(1, 0)
	a := newAbsence(3)
	task := func(own int, waited time.Duration, want int) {
		t.Helper()
		a.begin(now)
		a.end(own, time.Duration(own)*unit, waited, now)
		if a.active != want {
			t.Fatalf("%d threads take part, want %d", a.active, want)
		}
	}
	task(4, 0, 3)
	task(4, lostUnits*unit, 3) // the last unit of another thread, begun late
	task(0, time.Hour, 3)      // nothing tells how long units take
	task(4, lostAfter+3*unit, 2)
	task(4, lostAfter+3*unit, 1)
	task(4, time.Hour, 1) // the caller alone
	now = now.Add(2 * outFirst)
	task(4, 0, 1) // two losses: out for four times as long
	now = now.Add(2 * outFirst)
	task(4, 0, 2)
	now = now.Add(4 * outFirst)
	task(4, 0, 3)
	for range 20 {
		now = now.Add(outMost)
		task(4, 0, 3)
	}
	if a.out != outFirst {
		t.Errorf("after a long time without losses threads are left out for %v, want %v", a.out, outFirst)
	}
	for range 20 {
		task(4, time.Second, a.active-1)
		now = now.Add(a.out)
		task(4, 0, a.active+1)
	}
	if a.out != outMost {
		t.Errorf("after many losses threads are left out for %v, want %v", a.out, outMost)
	}
}

// TestPoolLeavesTheLostOut holds a worker up in the middle of a unit, and sees the caller do the next tasks alone.
func TestPoolLeavesTheLostOut(t *testing.T) {
	p := newPool(2)
	defer p.close()
	c := &countTask{done: make([]atomic.Int32, 8), workers: make([]atomic.Int32, 2)}
	lost := &lostTask{countTask: c}
	for start := time.Now(); p.absence.active == 2; {
		if p.run(lost, 8); time.Since(start) > 30*time.Second {
			t.Fatal("a worker that is away for 20 ms in each unit still takes part")
		}
	}
	for i := range c.done {
		c.done[i].Store(0)
	}
	c.workers[1].Store(0)
	p.absence.out = time.Hour
	p.run(c, 8)
	c.check(t)
	if n := c.workers[1].Load(); n != 0 {
		t.Errorf("a worker that is left out did %d units", n)
	}
	p.absence.out = 0
	met := &meetTask{}
	p.run(met, 2) // hangs unless the worker is back
}

// lostTask's worker is away in each unit.
type lostTask struct{ *countTask }

func (l *lostTask) unit(worker, i int) {
	l.countTask.unit(worker, i)
	if worker > 0 {
		time.Sleep(20 * time.Millisecond)
	}
}
