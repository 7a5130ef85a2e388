package protocol

import (
	"os"
	"sync"
	"time"
)

// parentPoll is how often the parent's pid is looked at.
const parentPoll = time.Second

// WatchLifeline calls gone once, on a goroutine of its own, when the supervisor is gone: f, the read end of the pipe whose
// only write end the supervisor holds, is at its end, or the process has another parent than now. A nil f leaves the
// poll alone. gone should end the process; it must not wait for the compute thread. stop ends the watch and closes f.
func WatchLifeline(f *os.File, gone func()) (stop func()) {
	var once sync.Once
	done := make(chan struct{})
	if f != nil {
		go func() {
			var b [1]byte
			for {
				n, err := f.Read(b[:])
				if n == 0 && err != nil {
					break
				}
			}
			select {
			case <-done: // our own Close ended the read
			default:
				once.Do(gone)
			}
		}()
	}
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(parentPoll)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if os.Getppid() != parent {
					once.Do(gone)
					return
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		if f != nil {
			f.Close()
		}
	})
}
