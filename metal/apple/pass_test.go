package apple

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"lilypad/metal"
)

const (
	bind  = `buffers at [0 512]; bytes "abcd" at 2; dispatch {4 1 1} of {64 1 1}`
	start = "command buffer; encoder 1; wait for fence; "
	stop  = "; update fence; end; commit; wait"
)

// round encodes and runs a pass.
func (s *station) round(t *testing.T, encode func(*metal.Pass)) {
	t.Helper()
	if err := s.pass.Begin(); err != nil {
		t.Fatal(err)
	}
	encode(s.pass)
	if err := errors.Join(s.pass.Commit(), s.pass.Wait()); err != nil {
		t.Fatal(err)
	}
	s.w.sent = withoutResidency(s.w.sent)
}

func withoutResidency(sent []string) []string {
	var list []string
	for _, m := range sent {
		if !strings.HasPrefix(m, "set of") && m != "resident" {
			list = append(list, m)
		}
	}
	return list
}

func TestMessagesOfAPass(t *testing.T) {
	s := newStation(t, nil)
	s.round(t, func(p *metal.Pass) {
		p.Dispatch(s.dispatch)
		p.Dispatch(s.dispatch)
		p.Barrier()
		p.Dispatch(s.dispatch)
	})
	s.wantSent(t, start+"pipeline; "+bind+"; "+bind+"; barrier 1; "+bind+stop)
	if from, to := s.pass.Times(); from != 1.5 || to != 2.5 {
		t.Errorf("times %v and %v, want 1.5 and 2.5", from, to)
	}
}

// A recording sends the same messages as its dispatches, with the constants and grid of when it was made.
func TestRecordingIsACopy(t *testing.T) {
	s := newStation(t, nil)
	record, err := s.device.NewRecording([]*metal.Dispatch{s.dispatch, nil, s.dispatch})
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	if err := errors.Join(s.dispatch.SetBytes([]byte("efgh")), s.dispatch.SetGroups(metal.Line(5))); err != nil {
		t.Fatal(err)
	}
	s.round(t, func(p *metal.Pass) {
		p.Replay(record)
		p.Dispatch(s.dispatch)
	})
	changed := strings.NewReplacer("abcd", "efgh", "{4", "{5").Replace(bind)
	s.wantSent(t, start+"pipeline; "+bind+"; barrier 1; "+bind+"; "+changed+stop)
}

// A method owns the structs that it gets by pointer, and may overwrite them.
func TestStructsAreCopies(t *testing.T) {
	s := newStation(t, func(w *world) { w.garbage = true })
	s.round(t, func(p *metal.Pass) {
		p.Dispatch(s.dispatch)
		p.Dispatch(s.dispatch)
	})
	s.wantSent(t, start+"pipeline; "+bind+"; "+bind+stop)
}

// A signal goes between two encoders, the second of which waits for the first, begins with no state and is made only
// when something follows.
func TestSignalPartsEncoders(t *testing.T) {
	s := newStation(t, nil)
	s.round(t, func(p *metal.Pass) {
		p.Dispatch(s.dispatch)
		p.Signal(s.event, 4)
		p.Dispatch(s.dispatch)
		p.Signal(s.event, 5)
	})
	s.wantSent(t, start+"pipeline; "+bind+"; update fence; end; signal 4; encoder 1; wait for fence; pipeline; "+bind+
		"; update fence; end; signal 5; commit; wait")
}

// The second encoder of a round can't be made: nothing is committed.
func TestNoSecondEncoder(t *testing.T) {
	s := newStation(t, nil)
	if err := s.pass.Begin(); err != nil {
		t.Fatal(err)
	}
	s.pass.Signal(s.event, 1)
	s.w.fail = "computeCommandEncoderWithDispatchType:"
	s.pass.Dispatch(s.dispatch)
	s.pass.Barrier()
	if err := s.pass.Commit(); err == nil || !strings.Contains(err.Error(), "gives no encoder") {
		t.Errorf("error %v", err)
	}
	if strings.Contains(strings.Join(s.w.sent, ";"), "commit") {
		t.Error("the pass was committed")
	}
}

func TestDroppedPasses(t *testing.T) {
	t.Run("closed while encoding", func(t *testing.T) {
		s := newStation(t, nil)
		if err := s.pass.Begin(); err != nil {
			t.Fatal(err)
		}
		s.pass.Dispatch(s.dispatch)
		s.pass.Close()
	})
	t.Run("closed in flight", func(t *testing.T) {
		s := newStation(t, nil)
		if err := errors.Join(s.pass.Begin(), s.pass.Commit()); err != nil {
			t.Fatal(err)
		}
		s.pass.Close()
		if last := s.w.sent[len(s.w.sent)-1]; last != "wait" {
			t.Errorf("the last message is %q, want a wait", last)
		}
	})
	t.Run("an error while encoding", func(t *testing.T) {
		s := newStation(t, nil)
		if err := s.pass.Begin(); err != nil {
			t.Fatal(err)
		}
		s.pass.Dispatch(nil)
		if s.pass.Commit() == nil {
			t.Error("no error")
		}
	})
}

// Two passes in flight: pools, command buffers and encoders stay apart.
func TestTwoPassesInFlight(t *testing.T) {
	s := newStation(t, nil)
	second, err := s.device.NewPass()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := s.pass.Begin(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		s.pass.Dispatch(s.dispatch)
		if err := errors.Join(s.pass.Commit(), second.Begin()); err != nil {
			t.Fatal(err)
		}
		b, err := s.device.NewBuffer(16) // pools nest
		if err != nil {
			t.Fatal(err)
		}
		second.Dispatch(s.dispatch)
		if err := errors.Join(s.pass.Wait(), second.Commit(), s.pass.Begin(), second.Wait()); err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	if err := errors.Join(s.pass.Commit(), s.pass.Wait()); err != nil {
		t.Fatal(err)
	}
}

func TestFailedPass(t *testing.T) {
	for _, c := range []struct {
		name  string
		error [3]string
		want  metal.PassError
	}{
		{"hang", [3]string{"Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)", domain, "2"},
			metal.PassError{Failure: metal.Hang, Code: 2, Text: "Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)"}},
		{"by code", [3]string{"?", domain, "8"}, metal.PassError{Failure: metal.OutOfMemory, Code: 8, Text: "?"}},
		{"no error", [3]string{}, metal.PassError{Failure: metal.Failed, Text: "command buffer with status 5 and no error"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStation(t, nil)
			s.w.failure = &c.error
			err := errors.Join(s.pass.Begin(), s.pass.Commit())
			if err != nil {
				t.Fatal(err)
			}
			var got *metal.PassError
			if err = s.pass.Wait(); !errors.As(err, &got) || *got != c.want {
				t.Errorf("error %#v, want %#v", err, c.want)
			}
		})
	}
}

// What messages carry has the layout that Apple's headers give.
func TestLayouts(t *testing.T) {
	var l launch
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"MTLSize", unsafe.Sizeof(l.groups), 24},
		{"MTLSize.height", unsafe.Offsetof(l.groups.Y), 8},
		{"MTLSize.depth", unsafe.Offsetof(l.groups.Z), 16},
		{"id<MTLBuffer>", unsafe.Sizeof(l.buffers[0]), 8},
		{"NSUInteger", unsafe.Sizeof(l.offsets[0]), 8},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, c.got, c.want)
		}
	}
}
