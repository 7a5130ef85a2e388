package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// countTask counts how often each unit was done and which worker did it.
type countTask struct {
	done    []atomic.Int32
	workers []atomic.Int32
	pause   func(i int)
}

func (c *countTask) unit(worker, i int) {
	c.done[i].Add(1)
	c.workers[worker].Add(1)
	if c.pause != nil {
		c.pause(i)
	}
}

func (c *countTask) check(t *testing.T) {
	t.Helper()
	for i := range c.done {
		if n := c.done[i].Swap(0); n != 1 {
			t.Fatalf("unit %d done %d times, want once", i, n)
		}
	}
}

// sleeping counts the workers that sleep.
func sleeping(p *pool) int {
	n := 0
	for w := range p.sleepers {
		if p.sleepers[w].parked.Load() {
			n++
		}
	}
	return n
}

// TestPoolDoesEachUnitOnce runs tasks of changing length back to back, with sleeping and with waking workers.
func TestPoolDoesEachUnitOnce(t *testing.T) {
	for _, size := range []int{1, 2, 3, 8} {
		p := newPool(size)
		for round := range 3000 {
			c := &countTask{done: make([]atomic.Int32, round%17), workers: make([]atomic.Int32, size)}
			p.run(c, len(c.done))
			c.check(t)
			if round%500 == 0 {
				for deadline := time.Now().Add(10 * time.Second); sleeping(p) < size-1 && time.Now().Before(deadline); {
					runtime.Gosched() // until all workers sleep
				}
			}
		}
		p.close()
		p.close()
	}
}

// TestPoolDoesNotWaitForTheAbsent holds one unit up and sees the other workers do the rest.
func TestPoolDoesNotWaitForTheAbsent(t *testing.T) {
	p := newPool(3)
	defer p.close()
	var others atomic.Int32
	c := &countTask{done: make([]atomic.Int32, 50), workers: make([]atomic.Int32, 3)}
	c.pause = func(i int) {
		if i != 0 {
			others.Add(1)
			return
		}
		for others.Load() < 49 {
			runtime.Gosched()
		}
	}
	p.run(c, 50)
	c.check(t)
}

// TestSleepersWake checks that a task reaches sleeping workers: it can't end on the caller alone.
func TestSleepersWake(t *testing.T) {
	p := newPool(2)
	defer p.close()
	for range 20 {
		for sleeping(p) == 0 {
			runtime.Gosched()
		}
		p.run(&meetTask{}, 2)
	}
}

// meetTask's two units wait for each other, so it ends only if two threads take part.
type meetTask struct{ met atomic.Int32 }

func (m *meetTask) unit(int, int) {
	m.met.Add(1)
	for m.met.Load() < 2 {
		runtime.Gosched()
	}
}
