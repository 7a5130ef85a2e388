package cpu

import (
	"errors"
	"testing"

	"lilypad/protocol"
	"lilypad/worker/checkpoint"
	"lilypad/worker/checkpoint/checkpointtest"
)

func smallModel(t testing.TB, opt Options) *Model {
	s := checkpointtest.Relative(2)
	s.Layers, s.Hidden, s.Experts, s.ExpertsPerToken = s.Layers[1:4], 32, 4, 2
	return newModel(t, checkpointtest.Fill(1, s, checkpointtest.Affine(4, 32, checkpoint.BF16)), opt)
}

func wantError(t *testing.T, err error, code protocol.Code, have, want int64) {
	t.Helper()
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != code || e.Have != have || e.Want != want {
		t.Errorf("error %v (%+v), want code %d with %d and %d", err, e, code, have, want)
	}
}

func TestNewRefusesOptions(t *testing.T) {
	ck := checkpointtest.Fill(1, checkpointtest.Relative(1), checkpointtest.F32)
	for name, opt := range map[string]Options{
		"negative context": {Context: -1}, "negative limit": {Limit: -1}, "negative threads": {Threads: -1}, "longer than the model": {Context: 513}, "no such kernels": {Kernels: "abacus"},
	} {
		if m, err := New(ck, opt); err == nil {
			m.Close()
			t.Errorf("%s: no error", name)
		}
	}
	ck.Shape.Context = 1 << 20
	if m := newModel(t, ck, Options{}); m.opt.Context != defaultContext {
		t.Errorf("context is %d, want %d", m.opt.Context, defaultContext)
	}
}

// TestFailedGrowthLosesNothing meets both bounds and goes on where it was.
func TestFailedGrowthLosesNothing(t *testing.T) {
	free := smallModel(t, Options{Threads: 1})
	tokens := someTokens(100, free.shape.Vocab)
	alone := newSequence(t, free)
	want := bitsOf(alone, forward(t, alone, tokens, 1))

	block := blockTokens * free.TokenBytes()
	m := smallModel(t, Options{Threads: 1, Context: 150, Limit: free.SnapshotBytes() + 2*block + 5})
	s := newSequence(t, m)
	forward(t, s, tokens[:60], 1)
	wantError(t, s.Grow(91), protocol.CodeContextLength, 151, 150)
	wantError(t, s.Grow(90), protocol.CodeMemory, block+5, 2*block)
	wantError(t, s.Forward(tokens[:90], 0, nil), protocol.CodeMemory, block+5, 2*block)
	_, err := m.New()
	if free.SnapshotBytes() > block+5 {
		wantError(t, err, protocol.CodeMemory, block+5, free.SnapshotBytes())
	}
	if s.Len() != 60 || m.Bytes() != m.SnapshotBytes()+block || s.Bytes() != m.Bytes() {
		t.Errorf("%d tokens and %d bytes after refusals, want 60 and %d", s.Len(), m.Bytes(), m.SnapshotBytes()+block)
	}
	if err := s.Grow(40); err != nil {
		t.Error(err)
	}
	if what := want.differ(bitsOf(s, forward(t, s, tokens[60:], 1))); what != "" {
		t.Errorf("%s differ after refusals", what)
	}
	s.Close()
	s.Close()
	if m.Bytes() != 0 {
		t.Errorf("%d bytes in use after Close", m.Bytes())
	}
}

// TestSnapshotAndResumeRefusedByMemory makes each allocation of a fork fail in turn.
func TestSnapshotAndResumeRefusedByMemory(t *testing.T) {
	free := smallModel(t, Options{Threads: 1})
	state, block := free.SnapshotBytes(), blockTokens*free.TokenBytes()
	for name, c := range map[string]struct {
		limit            int64
		snapshot, resume bool
	}{
		"nothing":   {state + block, false, false},
		"snapshot":  {2*state + block, true, false},
		"no block":  {3*state + block, true, false},
		"both":      {3*state + 2*block, true, true},
		"unlimited": {0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := smallModel(t, Options{Threads: 1, Limit: c.limit})
			s := newSequence(t, m)
			forward(t, s, someTokens(10, m.shape.Vocab), 0)
			before := m.Bytes()
			n, err := s.Snapshot()
			if (err == nil) != c.snapshot || err != nil && protocol.CodeOf(err) != protocol.CodeMemory {
				t.Fatalf("snapshot: %v", err)
			}
			if err != nil {
				if m.Bytes() != before {
					t.Errorf("%d bytes in use, want %d", m.Bytes(), before)
				}
				return
			}
			if n.Len() != 10 || n.Bytes() != state || s.Bytes() != state {
				t.Errorf("snapshot of %d tokens holds %d bytes, its sequence %d, want 10, %d, %d", n.Len(), n.Bytes(), s.Bytes(), state, state)
			}
			before = m.Bytes()
			fork, err := n.Resume()
			if (err == nil) != c.resume || err != nil && protocol.CodeOf(err) != protocol.CodeMemory {
				t.Fatalf("resume: %v", err)
			}
			if err != nil && m.Bytes() != before {
				t.Errorf("%d bytes in use, want %d", m.Bytes(), before)
			}
			if err == nil {
				fork.Close()
			}
			n.Close()
			n.Close()
			s.Close()
			if m.Bytes() != 0 {
				t.Errorf("%d bytes in use after Close", m.Bytes())
			}
		})
	}
}

// TestBadRequestsChangeNothing sends what Forward refuses.
func TestBadRequestsChangeNothing(t *testing.T) {
	m := smallModel(t, Options{Threads: 1})
	s := newSequence(t, m)
	logits := make([]float32, m.shape.Vocab)
	for name, f := range map[string]func() error{
		"id too large":     func() error { return s.Forward([]int32{0, int32(m.shape.Vocab)}, 1, logits) },
		"negative id":      func() error { return s.Forward([]int32{-1}, 1, logits) },
		"more rows":        func() error { return s.Forward([]int32{1}, 2, make([]float32, 2*m.shape.Vocab)) },
		"negative rows":    func() error { return s.Forward([]int32{1}, -1, logits) },
		"too short buffer": func() error { return s.Forward([]int32{1}, 1, logits[1:]) },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if s.Len() != 0 || len(s.blocks) != 0 {
		t.Errorf("%d tokens and %d blocks after refusals, want none", s.Len(), len(s.blocks))
	}
}

// TestForwardAllocatesNothing holds for decode and for a prefill chunk once the buffers have grown.
func TestForwardAllocatesNothing(t *testing.T) { eachSet(t, testForwardAllocatesNothing) }

func testForwardAllocatesNothing(t *testing.T, set string) {
	if slow {
		t.Skip("the race detector slows the demo's forward pass a hundredfold")
	}
	m := newModel(t, openDemo(t), Options{Kernels: set, Threads: 2})
	s := newSequence(t, m)
	logits := make([]float32, m.shape.Vocab)
	chunk := someTokens(16, m.shape.Vocab)
	forward(t, s, chunk, 1)
	if err := s.Grow(700); err != nil {
		t.Fatal(err)
	}
	m.pass.threads[0].growAttention(m, 1000)
	m.pass.threads[1].growAttention(m, 1000)
	for _, n := range []int{1, 16} {
		allocs := testing.AllocsPerRun(20, func() {
			if err := s.Forward(chunk[:n], 1, logits); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%v allocations for a chunk of %d tokens", allocs, n)
		}
	}
}

// TestHooksAndNames checks the rest of the backend's surface.
func TestHooksAndNames(t *testing.T) {
	var heard []int
	m := smallModel(t, Options{Threads: 2, OnLayer: func(layer int) { heard = append(heard, layer) }})
	s := newSequence(t, m)
	forward(t, s, []int32{1, 2}, 0)
	if len(heard) != 3 || heard[0] != 0 || heard[2] != 2 {
		t.Errorf("layers heard of: %v, want 0 1 2", heard)
	}
	if m.TokenBytes() != 2*2*64*4 { // one attention layer, two KV heads
		t.Errorf("a token has %d bytes of KV, want %d", m.TokenBytes(), 2*2*64*4)
	}
	if want := int64(2*3*(2*2*32+4*64)+2*4*64*32) * 4; m.SnapshotBytes() != want {
		t.Errorf("a snapshot has %d bytes, want %d", m.SnapshotBytes(), want)
	}
	if !m.ChunkIndependent() || m.Kernels() == "" {
		t.Error("the backend must be chunk independent and name its kernels")
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
