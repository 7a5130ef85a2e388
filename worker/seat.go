package worker

import "runtime"

// seat is a goroutine locked to its OS thread: a GPU driver wants the loading of the weights, all work and the end of it
// there. It runs what it is sent, one after the other, until it is closed.
type seat chan func()

func newSeat() seat {
	s := make(seat)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s {
			f()
		}
	}()
	return s
}

// do runs f on the seat and waits for it.
func (s seat) do(f func()) {
	done := make(chan struct{})
	s <- func() {
		f()
		close(done)
	}
	<-done
}
