package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// task is work cut into units that write disjoint outputs, so that any thread may do any unit in any order.
type task interface {
	// unit does unit i; worker, below the pool's size, names the scratch memory that it may use.
	unit(worker, i int)
}

// pool runs tasks on the caller and on goroutines that live as long as the pool. Units are claimed one at a time, so a
// thread that the system took away holds up at most the unit it was in, and one that comes late finds nothing to do.
type pool struct {
	size int // threads, the caller's included

	// word is the number of units (high half) and the next one to claim (low half). A claim is a compare-and-swap of the
	// whole word; task is written before the word and read only after a claim, which run waits for.
	word atomic.Uint64
	done atomic.Int32
	task task

	active  atomic.Int32 // threads that may claim: the workers below it
	absence absence

	sleepers []sleeper // of the workers, by number; the caller's is not used
	closed   atomic.Bool
	wg       sync.WaitGroup
}

// sleeper is where a worker sleeps.
type sleeper struct {
	parked atomic.Bool
	wake   chan struct{}
}

// A goroutine without work looks for some spinLooks times, yielding now and then, before it sleeps: about 50 µs, longer
// than the serial stretches of a decode step. Waking a sleeper costs the caller several µs. The caller waits for the last
// units without yielding, since it holds a locked thread, which a yield gives away and takes back through the system;
// only where a worker seems to have lost its processor, after some 100 µs, it does.
const (
	spinLooks = 1 << 14
	yieldMask = 1<<9 - 1
	waitMask  = 1<<17 - 1
)

func newPool(size int) *pool {
	p := &pool{size: size, absence: newAbsence(size), sleepers: make([]sleeper, size)}
	p.active.Store(int32(size))
	for w := 1; w < size; w++ {
		p.sleepers[w].wake = make(chan struct{}, 1)
		p.wg.Add(1)
		go p.work(w)
	}
	return p
}

// run does all units of t and returns when they are done. The calling goroutine is worker 0.
func (p *pool) run(t task, units int) {
	if p.size == 1 || units == 1 {
		for i := range units {
			t.unit(0, i)
		}
		return
	}
	start := time.Now()
	p.absence.begin(start)
	p.publish(t, units)
	own := 0
	for p.claim(0) {
		own++
	}
	if int(p.done.Load()) < units {
		waiting := time.Now()
		p.wait(units)
		now := time.Now()
		p.absence.end(own, waiting.Sub(start), now.Sub(waiting), now)
	}
	p.task = nil
}

// publish offers the units to the workers that take part, and wakes those that sleep.
func (p *pool) publish(t task, units int) {
	active := p.absence.active
	if int(p.active.Load()) != active {
		p.active.Store(int32(active))
	}
	p.task = t
	p.done.Store(0)
	p.word.Store(uint64(units) << 32)
	for w := 1; w < min(active, units); w++ {
		if s := &p.sleepers[w]; s.parked.Load() {
			s.signal()
		}
	}
}

// wait returns when units units are done.
func (p *pool) wait(units int) {
	for looks := 1; int(p.done.Load()) < units; looks++ {
		if looks&waitMask == 0 {
			runtime.Gosched()
		}
	}
}

// claim does one unit if there is one.
func (p *pool) claim(worker int) bool {
	for {
		word := p.word.Load()
		next := uint32(word)
		if next >= uint32(word>>32) || worker >= int(p.active.Load()) {
			return false
		}
		if p.word.CompareAndSwap(word, word+1) {
			p.task.unit(worker, int(next))
			p.done.Add(1)
			return true
		}
	}
}

func (p *pool) work(worker int) {
	defer p.wg.Done()
	for looks := 1; !p.closed.Load(); looks++ {
		switch {
		case p.claim(worker):
			looks = 0
		case looks == spinLooks:
			p.park(worker)
			looks = 0
		case looks&yieldMask == 0:
			runtime.Gosched()
		}
	}
}

// park sleeps until run or close wakes the worker. It announces itself before it looks a last time, and run looks for
// sleepers after it published work, so no work is missed.
func (p *pool) park(worker int) {
	s := &p.sleepers[worker]
	s.parked.Store(true)
	word := p.word.Load()
	idle := uint32(word) >= uint32(word>>32) || worker >= int(p.active.Load())
	if idle && !p.closed.Load() {
		<-s.wake
	}
	s.parked.Store(false)
}

func (s *sleeper) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // it is being woken already
	}
}

// close stops the goroutines and waits for them. It is safe to call twice.
func (p *pool) close() {
	if p.closed.Swap(true) {
		return
	}
	for w := 1; w < p.size; w++ {
		p.sleepers[w].signal()
	}
	p.wg.Wait()
}
