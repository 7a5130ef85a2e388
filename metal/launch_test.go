package metal_test

import (
	"errors"
	"math"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"lilypad/metal"
)

func TestSizeHasMTLSizesLayout(t *testing.T) {
	var s metal.Size
	if unsafe.Sizeof(s) != 24 || unsafe.Offsetof(s.Y) != 8 || unsafe.Offsetof(s.Z) != 16 {
		t.Error("metal.Size is not three 8-byte integers")
	}
}

func TestLaunchChecks(t *testing.T) {
	r := newRig(t)
	other := newRig(t)
	closedBuffer := must[*metal.Buffer](t)(r.device.NewBuffer(64))
	closedBuffer.Close()
	closedPipeline := must[*metal.Pipeline](t)(r.library.NewPipeline("gone"))
	closedPipeline.Close()
	for _, c := range []struct {
		name   string
		change func(*metal.Launch)
		want   string
	}{
		{"no pipeline", func(l *metal.Launch) { l.Pipeline = nil }, "pipeline is missing"},
		{"other device's pipeline", func(l *metal.Launch) { l.Pipeline = other.pipeline }, "another device's"},
		{"closed pipeline", func(l *metal.Launch) { l.Pipeline = closedPipeline }, "pipeline gone: already closed"},
		{"no threadgroups", func(l *metal.Launch) { l.Groups.Y = 0 }, "kernel_a: grid of {4 0 1}"},
		{"negative threadgroups", func(l *metal.Launch) { l.Groups.X = -1 }, "grid of"},
		{"grid past uint", func(l *metal.Launch) { l.Groups.X = 1 << 26 }, "product at most 4294967295"},
		{"no threads", func(l *metal.Launch) { l.Threads.Z = 0 }, "threadgroup of {64 1 0} threads"},
		{"threads over the pipeline's", func(l *metal.Launch) { l.Threads = metal.Line(513) }, "513 threads, but the pipeline allows 512"},
		{"threads whose product overflows", func(l *metal.Launch) { l.Threads = metal.Size{X: 1 << 32, Y: 1 << 32, Z: 1} }, "from 1 to 1024"},
		{"too many constants", func(l *metal.Launch) { l.Bytes = make([]byte, 4100) }, "4100 bytes of constants"},
		{"odd constants", func(l *metal.Launch) { l.Bytes = make([]byte, 6) }, "6 bytes of constants"},
		{"too many buffers", func(l *metal.Launch) { l.Buffers = make([]metal.Binding, 31) }, "31 buffers, at most 30"},
		{"no buffer", func(l *metal.Launch) { l.Buffers[1].Buffer = nil }, "buffer 1 is missing"},
		{"other device's buffer", func(l *metal.Launch) { l.Buffers[0].Buffer = other.buffer }, "buffer 0 is missing or another"},
		{"closed buffer", func(l *metal.Launch) { l.Buffers[0].Buffer = closedBuffer }, "buffer 0: already closed"},
		{"no access", func(l *metal.Launch) { l.Buffers[0].Access = 0 }, "buffer 0 has no access"},
		{"unknown access", func(l *metal.Launch) { l.Buffers[0].Access = 4 }, "buffer 0 has no access"},
		{"odd offset", func(l *metal.Launch) { l.Buffers[0].Offset = 2 }, "at offset 2"},
		{"negative offset", func(l *metal.Launch) { l.Buffers[0].Offset = -4 }, "at offset -4"},
		{"past the end", func(l *metal.Launch) { l.Buffers[1].Length = 516 }, "bytes [512, 1028) of 1024"},
		{"offset at the end", func(l *metal.Launch) { l.Buffers[1].Offset = 1024 }, "bytes [1024, 1024) of 1024"},
		{"offset far off", func(l *metal.Launch) { l.Buffers[1].Offset = math.MaxInt64 - 3 }, "of 1024"},
		{"negative length", func(l *metal.Launch) { l.Buffers[1].Length = -1 }, "of 1024"},
		{"overlap with a write", func(l *metal.Launch) { l.Buffers[1].Offset = 252 }, "buffers 0 and 1 overlap: bytes [0, 256) and [252, 1024)"},
		{"more read than there is", func(l *metal.Launch) { l.Buffers[0].Reads = 257 }, "257 unique bytes declared as read, out of 256"},
		{"reads of an output", func(l *metal.Launch) { l.Buffers[1].Reads = 4 }, "declared as read, which its access excludes"},
		{"writes of an input", func(l *metal.Launch) { l.Buffers[0].Writes = 4 }, "declared as written, which its access excludes"},
		{"negative reads", func(l *metal.Launch) { l.Buffers[0].Reads = -1 }, "-1 unique bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := r.launch()
			c.change(&l)
			open := r.f.open
			_, err := r.device.NewDispatch(l)
			wantError(t, err, c.want, nil)
			if r.f.open != open {
				t.Error("a refused launch reached the driver")
			}
		})
	}
}

// Two inputs may be the same bytes: nothing is written, so the compiler's assumption holds.
func TestInputsMayOverlap(t *testing.T) {
	r := newRig(t)
	l := r.launch()
	l.Buffers[1] = l.Buffers[0]
	if _, err := r.device.NewDispatch(l); err != nil {
		t.Error(err)
	}
}

func TestLaunchIsCompletedAndCopied(t *testing.T) {
	r := newRig(t)
	l := r.launch()
	l.Buffers[0].Reads = 16
	d := must[*metal.Dispatch](t)(r.device.NewDispatch(l))
	l.Bytes[0], l.Buffers[0].Length = 9, 0
	got := d.Launch()
	if got.Bytes[0] != 0 || got.Buffers[0].Length != 256 {
		t.Error("the dispatch shares memory with the caller's launch")
	}
	if b := got.Buffers[0]; b.Reads != 16 || b.Writes != 0 {
		t.Errorf("input: %d bytes read, %d written, want 16 and 0", b.Reads, b.Writes)
	}
	if b := got.Buffers[1]; b.Length != 512 || b.Reads != 0 || b.Writes != 512 {
		t.Errorf("output: length %d, %d bytes read, %d written, want 512, 0, 512", b.Length, b.Reads, b.Writes)
	}
}

func TestSetBytesAndGroups(t *testing.T) {
	r := newRig(t)
	wantError(t, r.dispatch.SetBytes(make([]byte, 4)), "constants of kernel_a: 4 bytes, want 8", nil)
	wantError(t, r.dispatch.SetGroups(metal.Size{X: 1}), "grid of {1 0 0}", nil)
	wantError(t, r.dispatch.SetGroups(metal.Line(1<<27)), "product at most", nil)
	if err := errors.Join(r.dispatch.SetBytes([]byte("12345678")), r.dispatch.SetGroups(metal.Line(9))); err != nil {
		t.Fatal(err)
	}
	if l := r.dispatch.Launch(); string(l.Bytes) != "12345678" || l.Groups != metal.Line(9) {
		t.Errorf("launch has %q and %v", l.Bytes, l.Groups)
	}
}

func TestRecordingChecks(t *testing.T) {
	r, other := newRig(t), newRig(t)
	_, err := r.device.NewRecording([]*metal.Dispatch{nil, other.dispatch})
	wantError(t, err, "recording dispatch 1: it is missing or another device's", nil)
}

// Any two bindings of one buffer, one of them written, are refused exactly when they share a byte.
func TestOverlapIsExact(t *testing.T) {
	r := newRig(t)
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) (int64, int64) {
			offset := 4 * rapid.Int64Range(0, 60).Draw(t, name+" offset")
			return offset, rapid.Int64Range(1, 256-offset).Draw(t, name+" length")
		}
		l := r.launch()
		a, b := &l.Buffers[0], &l.Buffers[1]
		a.Offset, a.Length = at("first")
		b.Offset, b.Length = at("second")
		shared := min(a.Offset+a.Length, b.Offset+b.Length) - max(a.Offset, b.Offset)
		d, err := r.device.NewDispatch(l)
		if (err == nil) != (shared <= 0) {
			t.Fatalf("%d bytes shared: error %v", shared, err)
		}
		if err == nil {
			d.Close()
		}
	})
}
