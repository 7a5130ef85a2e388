package protocol

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

func pair(t testing.TB) (supervisor, worker *Heartbeat) {
	t.Helper()
	supervisor, f, err := NewHeartbeat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	worker, err = OpenHeartbeat(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if supervisor.Close() != nil || worker.Close() != nil {
				t.Error("close failed")
			}
		}
	})
	return supervisor, worker
}

func TestHeartbeat(t *testing.T) {
	supervisor, worker := pair(t)
	if b := supervisor.Read(); b.Phase != PhaseStart || b.Step != 0 || b.Request != "" {
		t.Errorf("new page reads %+v", b)
	}
	long := strings.Repeat("r", 100)
	worker.Begin(PhasePrefill, "first")
	worker.Begin(PhaseDecode, long)
	worker.Layer(7)
	worker.Progress()
	worker.SetBytes(1 << 40)
	b := supervisor.Read()
	if b.Phase != PhaseDecode || b.Request != long[:63] || b.Layer != 7 || b.Step != 4 || b.Bytes != 1<<40 || b.At.IsZero() {
		t.Errorf("page reads %+v", b)
	}
	worker.Begin(PhaseIdle, "")
	if b := supervisor.Read(); b.Phase != PhaseIdle || b.Request != "" || b.Layer != 0 {
		t.Errorf("page reads %+v", b)
	}
}

func TestNoHeartbeat(t *testing.T) {
	var h *Heartbeat
	h.Begin(PhaseDecode, "r")
	h.Layer(1)
	h.Progress()
	h.SetBytes(1)
	if h.Read() != (Beat{}) || h.Close() != nil {
		t.Error("a nil heartbeat says something")
	}
}

// A reader never sees a request under another one's phase, nor a mixture of two names.
func TestHeartbeatIsNeverTorn(t *testing.T) {
	supervisor, worker := pair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20000 {
			if i%2 == 0 {
				worker.Begin(PhasePrefill, strings.Repeat("a", 63))
			} else {
				worker.Begin(PhaseDecode, strings.Repeat("b", 31))
			}
		}
	}()
	for {
		b := supervisor.Read()
		switch {
		case b.Phase == PhaseStart && b.Request == "":
		case b.Phase == PhasePrefill && b.Request == strings.Repeat("a", 63):
		case b.Phase == PhaseDecode && b.Request == strings.Repeat("b", 31):
		default:
			t.Fatalf("torn: %+v", b)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestOpenHeartbeatRefuses(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "short": strings.Repeat("x", pageSize-1), "long": strings.Repeat("x", pageSize+1),
		"no magic": strings.Repeat("x", pageSize), "zeros": strings.Repeat("\x00", pageSize),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "page")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if h, err := OpenHeartbeat(f); err == nil {
				h.Close()
				t.Error("it was accepted")
			}
		})
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := OpenHeartbeat(r); err == nil {
		t.Error("a pipe was accepted")
	}
}

// Whatever a dying worker scribbled, reading it is safe.
func FuzzReadHeartbeat(f *testing.F) {
	f.Add([]byte{255, 0, 1}, uint16(16))
	supervisor, _ := pair(f)
	f.Fuzz(func(t *testing.T, scribble []byte, at uint16) {
		raw := (*[pageSize]byte)(unsafe.Pointer(supervisor.page))
		copy(raw[int(at)%pageSize:], scribble)
		if b := supervisor.Read(); len(b.Request) > requestMax {
			t.Errorf("request of %d bytes", len(b.Request))
		}
	})
}

func BenchmarkHeartbeat(b *testing.B) {
	_, worker := pair(b)
	b.Run("Layer", func(b *testing.B) {
		for b.Loop() {
			worker.Layer(3)
		}
	})
	b.Run("Begin", func(b *testing.B) {
		for b.Loop() {
			worker.Begin(PhaseDecode, "chatcmpl-0123456789abcdef")
		}
	})
}
