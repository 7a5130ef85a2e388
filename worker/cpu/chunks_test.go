package cpu

import (
	"fmt"
	"slices"
	"testing"

	"lilypad/worker/checkpoint"
	"lilypad/worker/checkpoint/checkpointtest"
	"lilypad/worker/state"

	"pgregory.net/rapid"
)

// bits is everything a sequence holds, and logits: equal values mean that nothing can tell two computations apart.
type bits struct {
	logits, conv, recurrent []float32
	kv                      [][]float32
}

// bitsOf copies a sequence's state, without the room of its last block.
func bitsOf(s *sequence, logits []float32) bits {
	b := bits{logits: slices.Clone(logits), conv: slices.Clone(s.conv), recurrent: slices.Clone(s.recurrent)}
	for l := range s.m.attnLayers {
		for h := range s.m.shape.KVHeads {
			for p := range s.len {
				b.kv = append(b.kv, keyAt(s, l, h, p), slices.Clone(valueAt(s, l, h, p)))
			}
		}
	}
	return b
}

func (b bits) differ(o bits) string {
	switch {
	case !slices.Equal(b.logits, o.logits):
		return "logits"
	case !slices.Equal(b.conv, o.conv):
		return "conv windows"
	case !slices.Equal(b.recurrent, o.recurrent):
		return "recurrent states"
	case !slices.EqualFunc(b.kv, o.kv, slices.Equal):
		return "keys or values"
	}
	return ""
}

// inChunks computes tokens in chunks of n with the logits of each row.
func inChunks(t testing.TB, s *sequence, tokens []int32, n int) []float32 {
	t.Helper()
	var logits []float32
	for chunk := range slices.Chunk(tokens, n) {
		logits = append(logits, forward(t, s, chunk, len(chunk))...)
	}
	return logits
}

// TestChunksGiveTheSameBits cuts a prompt of 130 tokens in every way the design names, at one and two threads, and starts
// a second sequence from a snapshot at each cut.
func TestChunksGiveTheSameBits(t *testing.T) { eachSet(t, testChunksGiveTheSameBits) }

func testChunksGiveTheSameBits(t *testing.T, set string) {
	if slow {
		t.Skip("numeric: too slow under the race detector")
	}
	const n = 130
	ck := openDemo(t)
	tokens := someTokens(n, ck.Shape.Vocab)
	whole := newSequence(t, newModel(t, ck, Options{Kernels: set, Threads: 1}))
	want := bitsOf(whole, forward(t, whole, tokens, n))
	vocab := ck.Shape.Vocab
	for _, threads := range []int{1, 2} {
		m := newModel(t, ck, Options{Kernels: set, Threads: threads})
		for _, size := range []int{1, 2, 3, 63, 64, 65, n} {
			s := newSequence(t, m)
			if what := want.differ(bitsOf(s, inChunks(t, s, tokens, size))); what != "" {
				t.Errorf("%d threads, chunks of %d: %s differ", threads, size, what)
			}
			s.Close()
		}
		for cut := 1; cut < n; cut++ {
			s := newSequence(t, m)
			head := forward(t, s, tokens[:cut], cut)
			snapshot, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if what := want.differ(bitsOf(s, append(head, forward(t, s, tokens[cut:], n-cut)...))); what != "" {
				t.Errorf("%d threads, cut at %d: %s differ", threads, cut, what)
			}
			s.Close()
			if threads > 1 {
				fork, err := snapshot.Resume()
				if err != nil {
					t.Fatal(err)
				}
				// The fork asks for the last row only: fewer logits change nothing either.
				last := forward(t, fork, tokens[cut:], 1)
				if what := want.differ(bitsOf(fork.(*sequence), slices.Concat(want.logits[:(n-1)*vocab], last))); what != "" {
					t.Errorf("%d threads, fork at %d: %s differ", threads, cut, what)
				}
				fork.Close()
			}
			snapshot.Close()
		}
		if m.Bytes() != 0 {
			t.Errorf("%d bytes in use after all is closed", m.Bytes())
		}
	}
}

// TestLongChunkIsCut computes more tokens at once than one pass takes.
func TestLongChunkIsCut(t *testing.T) { eachSet(t, testLongChunkIsCut) }

func testLongChunkIsCut(t *testing.T, set string) {
	if slow {
		t.Skip("numeric: too slow under the race detector")
	}
	s := checkpointtest.Relative(2)
	s.Context = 3 * maxRows
	m := newModel(t, checkpointtest.Fill(1, s, checkpointtest.Affine(4, 64, checkpoint.BF16)), Options{Kernels: set})
	n := maxRows + 100
	tokens := someTokens(n, s.Vocab)
	for _, rows := range []int{0, 1, 99, 100, 101, n} {
		a, b := newSequence(t, m), newSequence(t, m)
		got := forward(t, a, tokens, rows)
		want := inChunks(t, b, tokens, 97)
		if what := bitsOf(b, want[(n-rows)*s.Vocab:]).differ(bitsOf(a, got)); what != "" {
			t.Errorf("last %d rows of %d: %s differ", rows, n, what)
		}
	}
}

// TestForksEqualFreshSequences is the property behind all reuse of states: however sequences and snapshots are made from
// each other, a sequence has the bits of its own tokens computed alone, and a snapshot never changes.
func TestForksEqualFreshSequences(t *testing.T) { eachSet(t, testForksEqualFreshSequences) }

func testForksEqualFreshSequences(t *testing.T, set string) {
	s := checkpointtest.Relative(2)
	s.Layers, s.Hidden, s.Experts, s.ExpertsPerToken = s.Layers[1:4], 32, 4, 2
	m := newModel(t, checkpointtest.Fill(1, s, checkpointtest.Affine(4, 32, checkpoint.BF16)), Options{Kernels: set, Threads: 2})
	rapid.Check(t, func(r *rapid.T) { forkAtRandom(t, r, m) })
	if m.Bytes() != 0 {
		t.Errorf("%d bytes in use after all is closed", m.Bytes())
	}
}

// TestForksOfAPartBlock lets a sequence and two forks of its snapshot go on with different tokens, turn by turn, from the
// middle of a KV block that they could share.
func TestForksOfAPartBlock(t *testing.T) {
	m := smallModel(t, Options{Threads: 1})
	origin := newSequence(t, m)
	prompt := someTokens(blockTokens+10, m.shape.Vocab)
	forward(t, origin, prompt, 0)
	frozen, err := origin.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	all := []state.Sequence{origin}
	for range 2 {
		fork, err := frozen.Resume()
		if err != nil {
			t.Fatal(err)
		}
		defer fork.Close()
		all = append(all, fork)
	}
	for i := range 90 {
		for j, s := range all {
			forward(t, s, []int32{int32(i+30*j) % int32(m.shape.Vocab)}, 0)
		}
	}
	for j, s := range all {
		fresh := newSequence(t, m)
		forward(t, fresh, prompt, 0)
		for i := range 90 {
			forward(t, fresh, []int32{int32(i+30*j) % int32(m.shape.Vocab)}, 0)
		}
		if what := bitsOf(fresh, nil).differ(bitsOf(s.(*sequence), nil)); what != "" {
			t.Errorf("sequence %d: %s differ from a fresh computation", j, what)
		}
	}
	fresh := newSequence(t, m)
	forward(t, fresh, prompt, 0)
	if what := bitsOf(fresh, nil).differ(bitsOf(&frozen.(*snapshot).frozen, nil)); what != "" {
		t.Errorf("the snapshot's %s changed", what)
	}
}

func forkAtRandom(t *testing.T, r *rapid.T, m *Model) {
	type tracked struct {
		*sequence
		tokens []int32
	}
	var live, frozen []tracked
	var snapshots []*snapshot
	start := func(s *sequence, tokens []int32) { live = append(live, tracked{s, slices.Clone(tokens)}) }
	first, _ := m.New()
	start(first.(*sequence), nil)
	for range rapid.IntRange(4, 16).Draw(r, "steps") {
		i := rapid.IntRange(0, len(live)-1).Draw(r, "sequence")
		s := &live[i]
		switch rapid.IntRange(0, 4).Draw(r, "kind") {
		case 0, 1, 2:
			n := rapid.IntRange(1, 40).Draw(r, "tokens")
			more := rapid.SliceOfN(rapid.Int32Range(0, int32(m.shape.Vocab)-1), n, n).Draw(r, "ids")
			if s.len+n <= 200 {
				forward(t, s.sequence, more, rapid.IntRange(0, n).Draw(r, "rows"))
				s.tokens = append(s.tokens, more...)
			}
		case 3:
			n, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			snapshots = append(snapshots, n.(*snapshot))
			frozen = append(frozen, tracked{&n.(*snapshot).frozen, slices.Clone(s.tokens)})
		case 4:
			if len(snapshots) == 0 {
				continue
			}
			j := rapid.IntRange(0, len(snapshots)-1).Draw(r, "snapshot")
			next, err := snapshots[j].Resume()
			if err != nil {
				t.Fatal(err)
			}
			start(next.(*sequence), frozen[j].tokens)
			if rapid.Bool().Draw(r, "close the origin") && len(live) > 1 {
				live[i].Close()
				live = slices.Delete(live, i, i+1)
			}
		}
	}
	for i, s := range slices.Concat(live, frozen) {
		fresh, _ := m.New()
		if len(s.tokens) > 0 {
			forward(t, fresh, s.tokens, 0)
		}
		if what := bitsOf(fresh.(*sequence), nil).differ(bitsOf(s.sequence, nil)); what != "" {
			r.Errorf("state %d after %d tokens: %s differ from a fresh computation", i, len(s.tokens), what)
		}
		fresh.Close()
		s.Close()
	}
}

// TestNeighboursChangeNothing puts every token of a vocabulary beside others, so that experts get every number of rows.
func TestNeighboursChangeNothing(t *testing.T) { eachSet(t, testNeighboursChangeNothing) }

func testNeighboursChangeNothing(t *testing.T, set string) {
	if slow {
		t.Skip("numeric: too slow under the race detector")
	}
	for name, ck := range checkpointtest.Relatives() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, ck, Options{Kernels: set, Threads: 2})
			tokens := someTokens(90, ck.Shape.Vocab)
			one := newSequence(t, m)
			want := bitsOf(one, inChunks(t, one, tokens, 1))
			for _, size := range []int{2, 3, 4, 5, 7, 31, 90} {
				s := newSequence(t, m)
				if what := want.differ(bitsOf(s, inChunks(t, s, tokens, size))); what != "" {
					t.Error(fmt.Sprint("chunks of ", size, ": ", what, " differ"))
				}
			}
		})
	}
}
