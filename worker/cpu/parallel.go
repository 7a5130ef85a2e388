package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
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

	parked atomic.Int32 // goroutines that wait on wake
	wake   chan struct{}
	closed atomic.Bool
	wg     sync.WaitGroup
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
	p := &pool{size: size, wake: make(chan struct{}, size)}
	for w := 1; w < size; w++ {
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
	p.task = t
	p.done.Store(0)
	p.word.Store(uint64(units) << 32)
	for range min(int(p.parked.Load()), units-1) {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	for p.claim(0) {
	}
	for looks := 1; int(p.done.Load()) < units; looks++ {
		if looks&waitMask == 0 {
			runtime.Gosched()
		}
	}
	p.task = nil
}

// claim does one unit if there is one.
func (p *pool) claim(worker int) bool {
	for {
		word := p.word.Load()
		next := uint32(word)
		if next >= uint32(word>>32) {
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
			p.park()
			looks = 0
		case looks&yieldMask == 0:
			runtime.Gosched()
		}
	}
}

// park sleeps until run or close wakes it. It announces itself before it looks a last time, and run looks for sleepers
// after it published work, so no work is missed.
func (p *pool) park() {
	p.parked.Add(1)
	word := p.word.Load()
	if uint32(word) >= uint32(word>>32) && !p.closed.Load() {
		<-p.wake
	}
	p.parked.Add(-1)
}

// close stops the goroutines and waits for them. It is safe to call twice.
func (p *pool) close() {
	if p.closed.Swap(true) {
		return
	}
	for range p.size {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	p.wg.Wait()
}
