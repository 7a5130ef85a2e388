package worker

import "sync"

// outbox carries what the compute thread makes to the caller's goroutine. Putting never blocks: a request whose outbox is
// full is not computed until the caller has taken some.
type outbox[T any] struct {
	limit int
	taken func() // called after a take from a full outbox

	mu       sync.Mutex
	items    []T
	finished bool
	err      error
	news     chan struct{} // capacity 1: something was put, or it is finished
}

func newOutbox[T any](limit int, taken func()) *outbox[T] {
	return &outbox[T]{limit: limit, taken: taken, news: make(chan struct{}, 1)}
}

func (o *outbox[T]) put(items ...T) {
	o.mu.Lock()
	o.items = append(o.items, items...)
	o.mu.Unlock()
	o.ring()
}

// finish says that nothing more comes, and why.
func (o *outbox[T]) finish(err error) {
	o.mu.Lock()
	o.finished, o.err = true, err
	o.mu.Unlock()
	o.ring()
}

func (o *outbox[T]) ring() {
	select {
	case o.news <- struct{}{}:
	default:
	}
}

func (o *outbox[T]) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.items) >= o.limit
}

// take returns all that is there, in reuse if it has the room, and whether that was the last.
func (o *outbox[T]) take(reuse []T) (items []T, finished bool, err error) {
	o.mu.Lock()
	wasFull := len(o.items) >= o.limit
	items, o.items = o.items, reuse[:0]
	finished, err = o.finished, o.err
	o.mu.Unlock()
	if wasFull {
		o.taken()
	}
	return items, finished, err
}
