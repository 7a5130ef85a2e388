package gpu

import (
	"errors"
	"slices"
	"testing"

	"lilypad/worker/state"
)

// TestEveryDispatchOfChunks compares each dispatch of chunks with its twin: at the beginning, behind other tokens and into
// another block, shorter and longer than the kernels' tiles.
func TestEveryDispatchOfChunks(t *testing.T) {
	d := openDevice(t)
	for name, ck := range checkpoints(t) {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, d, ck, Options{})
			s := newSequence(t, m)
			tokens := someTokens(150, m.Vocab())
			for _, n := range []int{2, 66, 17} {
				checkChunk(t, m, s, tokens[s.Len():][:n])
				forward(t, s, tokens[s.Len():][:1], 0, m.Vocab())
			}
		})
	}
}

// checkChunk wants every dispatch of a chunk to agree with its twin.
func checkChunk(t testing.TB, m *Model, s state.Sequence, tokens []int32) {
	t.Helper()
	n, err := m.CheckChunk(s, tokens, func(kind string, layer int, err error) {
		if err != nil {
			t.Errorf("%d tokens up to %d, layer %d, %s: %v", len(tokens), s.Len(), layer, kind, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 6*len(m.weights.layers) {
		t.Errorf("only %d dispatches were compared", n)
	}
}

// TestChunkRows: the logits of any of a chunk's last rows are those of the last row of a shorter chunk.
func TestChunkRows(t *testing.T) {
	m := cheap(t, Options{})
	vocab := m.Vocab()
	tokens := someTokens(40, vocab)
	s := newSequence(t, m)
	all := forward(t, s, tokens, 40, vocab)
	for _, rows := range []int{1, 2, 17} {
		s := newSequence(t, m)
		if got := forward(t, s, tokens, rows, vocab); !slices.Equal(got, all[(40-rows)*vocab:]) {
			t.Errorf("the last %d rows differ from those of all 40", rows)
		}
		s.Close()
	}
}

// TestChunksOfAnySize: where memory is short, chunks are shorter and bits the same.
func TestChunksOfAnySize(t *testing.T) {
	run := func(opt Options) ([]float32, []float32) {
		opt.Context = 2048
		m := cheap(t, opt)
		s := newSequence(t, m)
		defer s.Close()
		tokens := someTokens(1100, m.Vocab())
		return forward(t, s, tokens, 1, m.Vocab()), forward(t, s, tokens[:1], 1, m.Vocab())
	}
	want, wantNext := run(Options{})
	for name, opt := range map[string]Options{
		"512": {Chunk: 512}, "short of memory": {Pressed: func() bool { return true }},
	} {
		if got, next := run(opt); !slices.Equal(got, want) || !slices.Equal(next, wantNext) {
			t.Errorf("%s: other bits than with chunks of 2,048", name)
		}
	}
}

// TestChunkStops ends chunks between command buffers; the sequence goes on behind the last whole chunk as if nothing had been.
func TestChunkStops(t *testing.T) {
	m := cheap(t, Options{Context: 2048, Chunk: 512})
	vocab := m.Vocab()
	tokens := someTokens(700, vocab)
	fresh := newSequence(t, m)
	forward(t, fresh, tokens[:9], 0, vocab)
	want := forward(t, fresh, tokens[9:], 1, vocab)
	for _, after := range []int{0, 1, 3} {
		s := newSequence(t, m)
		forward(t, s, tokens[:9], 0, vocab)
		asked := 0
		stop := func() bool { asked++; return asked > after }
		logits := make([]float32, vocab)
		err := s.(state.Stoppable).ForwardUntil(stop, tokens[9:], 1, logits)
		if err == nil && after > 0 && asked <= after { // a fast GPU needs no more of them
			s.Close()
			continue
		}
		if !errors.Is(err, state.ErrStopped) {
			t.Fatalf("stopped after %d command buffers: %v", after, err)
		}
		n := s.Len()
		if n != 9 && n != 9+512 || n > 9 && after == 0 {
			t.Fatalf("%d tokens after a stop, want those of whole chunks", n)
		}
		if got := forward(t, s, tokens[n:], 1, vocab); !slices.Equal(got, want) {
			t.Errorf("stopped after %d command buffers, then computed: other bits", after)
		}
		s.Close()
	}
}

// TestExpertLoads: each token of a chunk goes to as many experts as it should, in every layer, and none of one alone counts.
func TestExpertLoads(t *testing.T) {
	m := newModel(t, openDevice(t), openTiny(t, "tiny-moe-r3", 0), Options{})
	s := newSequence(t, m)
	forward(t, s, someTokens(41, m.Vocab()), 0, m.Vocab())
	forward(t, s, someTokens(1, m.Vocab()), 0, m.Vocab())
	forward(t, s, someTokens(9, m.Vocab()), 0, m.Vocab())
	loads, err := m.ExpertLoads()
	if err != nil || len(loads) != len(m.weights.layers) {
		t.Fatalf("loads of %d layers, error %v", len(loads), err)
	}
	for i, rows := range loads {
		sum := int64(0)
		for _, n := range rows {
			sum += n
		}
		if want := int64(50 * m.shape.ExpertsPerToken); sum != want || len(rows) != m.shape.Experts {
			t.Errorf("layer %d: %d rows of %d experts, want %d of %d", i, sum, len(rows), want, m.shape.Experts)
		}
	}
}
