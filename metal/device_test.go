package metal_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	"lilypad/metal"
)

// wantError checks that err contains text and wraps target, where they are given.
func wantError(t *testing.T, err error, text string, target error) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", text)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("error %q, want %q in it", err, text)
	}
	if target != nil && !errors.Is(err, target) {
		t.Errorf("error %q does not wrap %q", err, target)
	}
}

func TestEverythingIsClosedOnce(t *testing.T) {
	r := newRig(t)
	wantError(t, r.device.Close(), "7 of its objects are still open", nil)
	r.close()
	r.close()
	if r.f.open != 0 {
		t.Errorf("%d objects of the driver are open after closing all twice", r.f.open)
	}
	for range 2 {
		if err := r.device.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !r.f.closed {
		t.Error("the driver was not closed")
	}
}

func TestClosedObjectsAreErrors(t *testing.T) {
	r := newRig(t)
	r.close()
	one := make([]byte, 1)
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"pipeline of a library", func() error { _, err := r.library.NewPipeline("k"); return err }},
		{"read a buffer", func() error { return r.buffer.Read(one, 0) }},
		{"write a buffer", func() error { return r.buffer.Write(one, 0) }},
		{"dispatch with a pipeline", func() error { _, err := r.device.NewDispatch(r.launch()); return err }},
		{"constants of a dispatch", func() error { return r.dispatch.SetBytes(make([]byte, 8)) }},
		{"grid of a dispatch", func() error { return r.dispatch.SetGroups(metal.Line(1)) }},
		{"record a dispatch", func() error { _, err := r.device.NewRecording([]*metal.Dispatch{r.dispatch}); return err }},
		{"begin a pass", func() error { return r.pass.Begin() }},
		{"commit a pass", func() error { return r.pass.Commit() }},
		{"wait for a pass", func() error { return r.pass.Wait() }},
		{"wait for an event", func() error { return r.event.Wait(0, time.Second) }},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, c.call(), "", metal.ErrClosed) })
	}
	if r.buffer.Memory() != nil || r.event.Value() != 0 {
		t.Error("closed objects still give values")
	}
	if start, end := r.pass.Times(); start != 0 || end != 0 {
		t.Error("a closed pass still has times")
	}
}

func TestClosedDeviceMakesNothing(t *testing.T) {
	d := metal.NewDevice(&fakeDriver{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"library":   func() error { _, err := d.NewLibrary("a", ""); return err },
		"buffer":    func() error { _, err := d.NewBuffer(1); return err },
		"wrap":      func() error { _, err := d.WrapBuffer(pages(1)); return err },
		"dispatch":  func() error { _, err := d.NewDispatch(metal.Launch{}); return err },
		"recording": func() error { _, err := d.NewRecording(nil); return err },
		"pass":      func() error { _, err := d.NewPass(); return err },
		"event":     func() error { _, err := d.NewEvent(); return err },
	} {
		t.Run(name, func(t *testing.T) { wantError(t, call(), "Fake GPU", metal.ErrClosed) })
	}
}

// A driver's failure names what was being made, and the object does not count as open.
func TestDriverFailures(t *testing.T) {
	for what, call := range map[string]func(*rig) error{
		"library":   func(r *rig) error { _, err := r.device.NewLibrary("b.metal", "text"); return err },
		"pipeline":  func(r *rig) error { _, err := r.library.NewPipeline("k"); return err },
		"buffer":    func(r *rig) error { _, err := r.device.NewBuffer(16); return err },
		"wrap":      func(r *rig) error { _, err := r.device.WrapBuffer(pages(1)); return err },
		"dispatch":  func(r *rig) error { _, err := r.device.NewDispatch(r.launch()); return err },
		"recording": func(r *rig) error { _, err := r.device.NewRecording([]*metal.Dispatch{r.dispatch}); return err },
		"pass":      func(r *rig) error { _, err := r.device.NewPass(); return err },
		"event":     func(r *rig) error { _, err := r.device.NewEvent(); return err },
		"begin":     func(r *rig) error { return r.pass.Begin() },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			r.f.fail = what
			wantError(t, call(r), "", errFake)
			r.close()
			if err := r.device.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCompileErrorKeepsItsLine(t *testing.T) {
	r := newRig(t)
	_, err := r.device.NewLibrary("b.metal", "bad")
	wantError(t, err, "compiling b.metal: program_source:3:1", nil)
	var ce *metal.CompileError
	if !errors.As(err, &ce) || ce.Line != 3 {
		t.Errorf("error %#v, want a CompileError of line 3", err)
	}
}

func TestThreadgroupMemoryLimit(t *testing.T) {
	r := newRig(t)
	open := r.f.open
	r.f.threadgroup = metal.MaxThreadgroupMemory + 16
	_, err := r.library.NewPipeline("wide")
	wantError(t, err, "32784 bytes of threadgroup memory, at most 32768", nil)
	if r.f.open != open {
		t.Error("the refused pipeline stayed open")
	}
}

func TestBufferLimits(t *testing.T) {
	r := newRig(t)
	d := r.device
	odd := pages(2)
	for _, c := range []struct {
		name string
		call func() error
		text string
	}{
		{"empty", func() error { _, err := d.NewBuffer(0); return err }, "of 0 bytes"},
		{"too large", func() error { _, err := d.NewBuffer(1<<20 + 1); return err }, "1048577 bytes: GPU Fake GPU allows 1 to 1048576"},
		{"wrap nothing", func() error { _, err := d.WrapBuffer(nil); return err }, "wrapping 0 bytes"},
		{"wrap part of a page", func() error { _, err := d.WrapBuffer(odd[:5000]); return err }, "wrapping 5000 bytes: want a multiple of 16384"},
		{"wrap inside a page", func() error { _, err := d.WrapBuffer(odd[64 : 64+16384]); return err }, "64 bytes into a page"},
		{"wrap too much", func() error { _, err := d.WrapBuffer(pages(65)); return err }, "wrapping 1064960 bytes"},
		{"read past the end", func() error { return r.buffer.Read(make([]byte, 8), 1020) }, "reading bytes [1020, 1028) of a buffer of 1024"},
		{"read before the start", func() error { return r.buffer.Read(make([]byte, 8), -4) }, "[-4, 4)"},
		{"write far off", func() error { return r.buffer.Write(make([]byte, 8), 1<<62) }, "writing bytes"},
		{"write too much", func() error { return r.buffer.Write(make([]byte, 1025), 0) }, "[0, 1025)"},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, c.call(), c.text, nil) })
	}
}

func TestBufferReadsWhatWasWritten(t *testing.T) {
	r := newRig(t)
	memory := pages(1)
	wrapped := must[*metal.Buffer](t)(r.device.WrapBuffer(memory))
	for name, b := range map[string]*metal.Buffer{"own": r.buffer, "wrapped": wrapped} {
		if err := b.Write([]byte("hello"), b.Length()-5); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if err := b.Read(got, b.Length()-5); err != nil || string(got) != "hello" {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
	if string(memory[len(memory)-5:]) != "hello" {
		t.Error("the wrapped memory was copied")
	}
}

// pages is n pages of memory that begin at a page.
func pages(n int) []byte {
	const page = 16 << 10
	b := make([]byte, (n+1)*page)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page
	return b[skip:][:n*page]
}

func TestConstants(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name string
		list []metal.Constant
		want string // of the error; empty for none
	}{
		{"all types", []metal.Constant{metal.Bool(0, true), metal.Int(1, -1), metal.Uint(2, 7), metal.Float(65535, 0.5)}, ""},
		{"twice", []metal.Constant{metal.Uint(3, 1), metal.Int(3, 1)}, "function constant 3 is given twice"},
		{"negative", []metal.Constant{metal.Uint(-1, 1)}, "function constant -1"},
		{"too high", []metal.Constant{metal.Uint(65536, 1)}, "ids go from 0 to 65535"},
		{"no type", []metal.Constant{{ID: 4, Bits: 1}}, "function constant 4: 0x1 is no value of type 0"},
		{"no bool", []metal.Constant{{ID: 4, Type: metal.BoolConstant, Bits: 2}}, "0x2 is no value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.library.NewPipeline("k", c.list...)
			if c.want == "" && err == nil {
				return
			}
			wantError(t, err, c.want, nil)
		})
	}
	if got := metal.Float(1, 1).Bits; got != 0x3f800000 {
		t.Errorf("bits of 1.0 are %#x", got)
	}
	if got := metal.Int(1, -2).Bits; got != 0xfffffffe {
		t.Errorf("bits of -2 are %#x", got)
	}
	if metal.Bool(1, false).Bits != 0 || metal.Bool(1, true).Bits != 1 {
		t.Error("bits of a bool are not 0 and 1")
	}
}

func TestErrorTexts(t *testing.T) {
	seen := map[string]bool{}
	for f := metal.Failed; f <= metal.Victim; f++ {
		if s := f.String(); seen[s] || strings.HasPrefix(s, "failure") {
			t.Errorf("failure %d has the text %q", int(f), s)
		} else {
			seen[s] = true
		}
	}
	for _, f := range []metal.Failure{0, metal.Victim + 1, -1} {
		if !strings.HasPrefix(f.String(), "failure") {
			t.Errorf("failure %d has a text", int(f))
		}
	}
	err := &metal.PassError{Failure: metal.OutOfMemory, Code: 8, Text: "Insufficient Memory"}
	if got := err.Error(); got != "GPU pass ran out of memory (code 8): Insufficient Memory" {
		t.Errorf("text %q", got)
	}
}
