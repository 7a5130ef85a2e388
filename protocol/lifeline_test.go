package protocol

import (
	"os"
	"testing"
	"time"
)

func TestLifeline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	stop := WatchLifeline(r, func() { close(gone) })
	defer stop()
	if _, err := w.Write([]byte("x")); err != nil { // bytes mean nothing
		t.Fatal(err)
	}
	select {
	case <-gone:
		t.Fatal("gone while the write end is open")
	case <-time.After(20 * time.Millisecond):
	}
	w.Close()
	<-gone
}

func TestLifelineStops(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	stop := WatchLifeline(r, func() { t.Error("gone, but it was stopped") })
	stop()
	stop()
	if _, err := r.Read(make([]byte, 1)); err == nil {
		t.Error("the pipe is open after stop")
	}
}
