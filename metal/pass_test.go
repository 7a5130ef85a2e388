package metal_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"lilypad/metal"
)

func (r *rig) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(r.f.log, want) {
		t.Errorf("driver saw %q, want %q", r.f.log, want)
	}
}

func TestPassReachesTheDriverInOrder(t *testing.T) {
	r := newRig(t)
	for range 2 {
		r.f.log = r.f.log[:0]
		if err := r.pass.Begin(); err != nil {
			t.Fatal(err)
		}
		r.pass.Dispatch(r.dispatch)
		r.pass.Barrier()
		r.pass.Replay(r.record)
		r.pass.Signal(r.event, 5)
		if err := errors.Join(r.pass.Commit(), r.pass.Wait()); err != nil {
			t.Fatal(err)
		}
		r.wantLog(t, "begin", "kernel_a", "barrier", "replay", "signal", "commit", "wait")
	}
	if err := r.event.Wait(5, time.Second); err != nil || r.event.Value() != 5 {
		t.Errorf("event at %d, %v", r.event.Value(), err)
	}
	wantError(t, r.event.Wait(6, time.Millisecond), "at 5 after 1ms, want 6", nil)
	if start, end := r.pass.Times(); start != 1 || end != 2 {
		t.Errorf("times %v and %v", start, end)
	}
}

// What can't be encoded closes the pass at Commit, and nothing runs.
func TestErrorsWhileEncoding(t *testing.T) {
	other := newRig(t)
	for _, c := range []struct {
		name   string
		encode func(*rig)
		want   string
		target error
	}{
		{"no dispatch", func(r *rig) { r.pass.Dispatch(nil) }, "is missing", nil},
		{"closed dispatch", func(r *rig) { r.dispatch.Close(); r.pass.Dispatch(r.dispatch) }, "kernel_a", metal.ErrClosed},
		{"closed pipeline", func(r *rig) { r.pipeline.Close(); r.pass.Dispatch(r.dispatch) }, "pipeline", metal.ErrClosed},
		{"closed buffer", func(r *rig) { r.buffer.Close(); r.pass.Dispatch(r.dispatch) }, "kernel_a: buffer 0", metal.ErrClosed},
		{"other device's dispatch", func(r *rig) { r.pass.Dispatch(other.dispatch) }, "another device's", nil},
		{"no recording", func(r *rig) { r.pass.Replay(nil) }, "is missing", nil},
		{"closed recording", func(r *rig) { r.record.Close(); r.pass.Replay(r.record) }, "recording", metal.ErrClosed},
		{"recording of a closed dispatch", func(r *rig) { r.dispatch.Close(); r.pass.Replay(r.record) }, "dispatch 0", metal.ErrClosed},
		{"recording of a closed buffer", func(r *rig) { r.buffer.Close(); r.pass.Replay(r.record) }, "buffer 0", metal.ErrClosed},
		{"other device's recording", func(r *rig) { r.pass.Replay(other.record) }, "another device's", nil},
		{"no event", func(r *rig) { r.pass.Signal(nil, 1) }, "is missing", nil},
		{"closed event", func(r *rig) { r.event.Close(); r.pass.Signal(r.event, 1) }, "event", metal.ErrClosed},
		{"other device's event", func(r *rig) { r.pass.Signal(other.event, 1) }, "another device's", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			if err := r.pass.Begin(); err != nil {
				t.Fatal(err)
			}
			c.encode(r)
			r.pass.Barrier() // nothing is encoded after the first error
			wantError(t, r.pass.Commit(), c.want, c.target)
			r.wantLog(t, "begin", "close")
			wantError(t, r.pass.Begin(), "beginning a pass", metal.ErrClosed)
			next := must[*metal.Pass](t)(r.device.NewPass())
			if err := next.Begin(); err != nil {
				t.Errorf("the next pass: %v", err)
			}
		})
	}
}

func TestPassStates(t *testing.T) {
	t.Run("encoding outside a round is told by Begin", func(t *testing.T) {
		r := newRig(t)
		r.pass.Dispatch(r.dispatch)
		wantError(t, r.pass.Begin(), "a dispatch in a pass: it is idle", nil)
		if err := r.pass.Begin(); err != nil {
			t.Errorf("the second Begin: %v", err)
		}
		r.wantLog(t, "begin")
	})
	t.Run("commit of an idle pass", func(t *testing.T) {
		r := newRig(t)
		wantError(t, r.pass.Commit(), "commit in a pass: it is idle", nil)
		if err := r.pass.Begin(); err != nil {
			t.Errorf("the pass is no longer usable: %v", err)
		}
	})
	t.Run("begin twice", func(t *testing.T) {
		r := newRig(t)
		_ = r.pass.Begin()
		wantError(t, r.pass.Begin(), "it is being encoded", nil)
	})
	t.Run("begin in flight", func(t *testing.T) {
		r := newRig(t)
		_ = errors.Join(r.pass.Begin(), r.pass.Commit())
		wantError(t, r.pass.Begin(), "it is in flight", nil)
	})
	t.Run("wait for an idle pass", func(t *testing.T) {
		wantError(t, newRig(t).pass.Wait(), "it is idle", nil)
	})
	t.Run("one pass at a time is encoded, more are in flight", func(t *testing.T) {
		r := newRig(t)
		second := must[*metal.Pass](t)(r.device.NewPass())
		_ = r.pass.Begin()
		wantError(t, second.Begin(), "another of this GPU is being encoded", nil)
		if err := errors.Join(r.pass.Commit(), second.Begin(), second.Commit(), r.pass.Wait(), second.Wait()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a driver that can't commit closes the pass", func(t *testing.T) {
		r := newRig(t)
		_ = r.pass.Begin()
		r.f.fail = "commit"
		wantError(t, r.pass.Commit(), "committing a pass", errFake)
		r.wantLog(t, "begin", "close")
		wantError(t, r.pass.Begin(), "", metal.ErrClosed)
	})
	t.Run("a failed pass can begin again", func(t *testing.T) {
		r := newRig(t)
		_ = errors.Join(r.pass.Begin(), r.pass.Commit())
		r.f.fail = "wait"
		var failure *metal.PassError
		if err := r.pass.Wait(); !errors.As(err, &failure) || failure.Failure != metal.Hang {
			t.Errorf("error %v, want a hang", err)
		}
		if err := r.pass.Begin(); err != nil {
			t.Error(err)
		}
	})
	t.Run("close waits for what is in flight", func(t *testing.T) {
		r := newRig(t)
		_ = errors.Join(r.pass.Begin(), r.pass.Commit())
		r.pass.Close()
		r.wantLog(t, "begin", "commit", "wait", "close")
	})
	t.Run("close drops what is encoded", func(t *testing.T) {
		r := newRig(t)
		_ = r.pass.Begin()
		r.pass.Close()
		r.wantLog(t, "begin", "close")
		if err := must[*metal.Pass](t)(r.device.NewPass()).Begin(); err != nil {
			t.Errorf("the next pass: %v", err)
		}
	})
}

// A token's encoding through the API allocates nothing, also right after something was closed.
func TestEncodingAllocatesNothing(t *testing.T) {
	r := newRig(t)
	r.f.log = nil
	constants := make([]byte, 8)
	var failed error
	n := testing.AllocsPerRun(50, func() {
		err := r.pass.Begin()
		for range 300 {
			err = errors.Join(err, r.dispatch.SetBytes(constants), r.dispatch.SetGroups(metal.Line(3)))
			r.pass.Dispatch(r.dispatch)
			r.pass.Barrier()
		}
		r.pass.Replay(r.record)
		r.pass.Signal(r.event, 1)
		failed = errors.Join(failed, err, r.pass.Commit(), r.pass.Wait())
	})
	if failed != nil {
		t.Fatal(failed)
	}
	if n != 0 {
		t.Errorf("%v allocations per pass, want none", n)
	}
}

func BenchmarkPass(b *testing.B) {
	r := newRig(b)
	r.f.log = nil
	b.ReportAllocs()
	for b.Loop() {
		_ = r.pass.Begin()
		for range 350 {
			r.pass.Dispatch(r.dispatch)
			r.pass.Barrier()
		}
		_ = r.pass.Commit()
		_ = r.pass.Wait()
	}
}
