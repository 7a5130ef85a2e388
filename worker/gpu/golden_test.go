package gpu

import (
	"slices"
	"strings"
	"testing"

	"lilypad/worker/checkpoint"
	"lilypad/worker/checkpoint/checkpointtest"
	"lilypad/worker/state"
)

// Bounds of the demo's predictions (design, section 4).
const (
	meanBound  = 1e-4
	worstBound = 3e-2
)

// demoCase is a recorded greedy generation of the demo model.
type demoCase struct {
	Prompt []int32 `json:"prompt_token_ids"`
	Steps  []struct {
		Chosen int32 `json:"chosen"`
	} `json:"steps"`
}

// tokens are the prompt and all chosen tokens but the last.
func (c *demoCase) tokens() []int32 {
	list := slices.Clone(c.Prompt)
	for _, s := range c.Steps[:len(c.Steps)-1] {
		list = append(list, s.Chosen)
	}
	return list
}

func demoCases(t testing.TB) []demoCase {
	t.Helper()
	var golden struct{ Cases []demoCase }
	readJSON(t, "../cpu/testdata/demo_generation.json", &golden)
	if len(golden.Cases) != 18 {
		t.Fatalf("%d cases, want 18", len(golden.Cases))
	}
	return golden.Cases
}

// TestDemoGoldens feeds every recorded generation to the model and compares all predictions with fp32's, by the bounds of the
// design. Measured: a mean divergence of 3.4e-6 and a largest one of 8.4e-4. A few positions are so sensitive that rounding
// activations tips them: in the fp32 backend, rounding nothing but z to bf16 moves one by 0.16.
func TestDemoGoldens(t *testing.T) {
	ck := openDemo(t)
	m := newModel(t, openDevice(t), ck, Options{})
	for name, compute := range map[string]func(t testing.TB, s state.Sequence, tokens []int32) []float32{
		"one by one": func(t testing.TB, s state.Sequence, tokens []int32) []float32 {
			return oneByOne(t, s, tokens, m.Vocab())
		},
		"in a chunk": func(t testing.TB, s state.Sequence, tokens []int32) []float32 {
			return forward(t, s, tokens, len(tokens), m.Vocab())
		},
	} {
		t.Run(name, func(t *testing.T) { demoGoldens(t, ck, m, compute) })
	}
}

func demoGoldens(t *testing.T, ck *checkpoint.Checkpoint, m *Model, compute func(t testing.TB, s state.Sequence, tokens []int32) []float32) {
	var d divergence
	for _, c := range demoCases(t) {
		tokens := c.tokens()
		s := newSequence(t, m)
		d.add(reference(t, ck, tokens), compute(t, s, tokens), m.Vocab())
		s.Close()
	}
	t.Logf("%d positions: mean divergence %.3g, worst %.3g", d.n, d.mean(), d.worst)
	if !(d.mean() <= meanBound) || !(d.worst <= worstBound) || d.flips > 0 {
		t.Errorf("mean divergence %.3g, worst %.3g, %d confident tokens flipped (margin %.2f); want at most %g, %g and none",
			d.mean(), d.worst, d.flips, d.margin, meanBound, worstBound)
	}
}

// TestDemoSplits cuts 130 tokens of a recorded prompt in two in the ways that the kernels' tiles and blocks make interesting,
// and goes on behind them one by one.
func TestDemoSplits(t *testing.T) {
	ck := openDemo(t)
	m := newModel(t, openDevice(t), ck, Options{})
	tokens := demoCases(t)[11].tokens()[:140]
	want := reference(t, ck, tokens)
	for _, cut := range []int{1, 2, 3, 63, 64, 65, 129} {
		s := newSequence(t, m)
		var d divergence
		got := forward(t, s, tokens[:cut], cut, m.Vocab())
		got = append(got, forward(t, s, tokens[cut:130], 130-cut, m.Vocab())...)
		d.add(want, append(got, oneByOne(t, s, tokens[130:], m.Vocab())...), m.Vocab())
		s.Close()
		t.Logf("cut at %d: mean divergence %.3g, worst %.3g", cut, d.mean(), d.worst)
		if !(d.mean() <= meanBound) || !(d.worst <= worstBound) || d.flips > 0 {
			t.Errorf("cut at %d: mean divergence %.3g, worst %.3g, %d confident tokens flipped", cut, d.mean(), d.worst, d.flips)
		}
	}
}

// tinyCases are the token sequences of a random relative's goldens.
func tinyCases(t testing.TB, name string) [][]int32 {
	t.Helper()
	var golden struct {
		Cases []struct {
			IDs []int32 `json:"ids"`
		}
	}
	readJSON(t, "../checkpoint/testdata/"+name+"/goldens.json", &golden)
	var list [][]int32
	for _, c := range golden.Cases {
		list = append(list, c.IDs)
	}
	if len(list) != 8 {
		t.Fatalf("%d cases, want 8", len(list))
	}
	return list
}

// TestTinyGoldens compares the random relatives' predictions with fp32's. Their bound is what rounding costs: the same run made
// of the float32 twins, which round where the kernels do. Chunks are longer and longer, up to a tile and a half.
func TestTinyGoldens(t *testing.T) {
	for _, name := range []string{"tiny-moe-r3", "tiny-dense-tied-r1"} {
		ck := openTiny(t, name, 0)
		m := newModel(t, openDevice(t), ck, Options{})
		for way, cut := range map[string]func(at int) int{
			"one by one": func(int) int { return 1 }, "in chunks": func(at int) int { return min(8+at/2, 96) },
		} {
			t.Run(name+", "+way, func(t *testing.T) { asTwins(t, ck, m, tinyCases(t, name), cut) })
		}
	}
}

// asTwins wants m's predictions for cases as near to fp32's as those of the twins, in units as long as cut says.
func asTwins(t *testing.T, ck *checkpoint.Checkpoint, m *Model, cases [][]int32, cut func(at int) int) {
	t.Helper()
	var kernels, twins divergence
	for _, tokens := range cases {
		want := reference(t, ck, tokens)
		s := newSequence(t, m)
		var got []float32
		for s.Len() < len(tokens) {
			unit := tokens[s.Len():][:min(cut(s.Len()), len(tokens)-s.Len())]
			got = append(got, forward(t, s, unit, len(unit), m.Vocab())...)
		}
		kernels.add(want, got, m.Vocab())
		s.Close()
		s = newSequence(t, m)
		got = nil
		for s.Len() < len(tokens) {
			unit := tokens[s.Len():][:min(cut(s.Len()), len(tokens)-s.Len())]
			got = append(got, twinForward(t, m, s.(*sequence), unit)...)
		}
		twins.add(want, got, m.Vocab())
		s.Close()
	}
	t.Logf("%d positions: mean divergence %.3g, worst %.3g, %d flips up to %.2f; of the twins %.3g, %.3g, %d up to %.2f", kernels.n, kernels.mean(),
		kernels.worst, kernels.flips, kernels.margin, twins.mean(), twins.worst, twins.flips, twins.margin)
	// What the twins keep by a hair the kernels may lose by one: a flip counts from twice the margin on.
	if !(kernels.mean() <= 1.5*twins.mean()) || !(kernels.worst <= 3*twins.worst) || kernels.margin > max(0.5, 1.5*twins.margin) {
		t.Errorf("mean divergence %.3g, worst %.3g, %d flips up to a margin of %.2f; the twins' are %.3g, %.3g, %d, %.2f", kernels.mean(), kernels.worst,
			kernels.flips, kernels.margin, twins.mean(), twins.worst, twins.flips, twins.margin)
	}
}

// TestRelatives does the same with random relatives of other shapes and storages: one to four value heads for a key head, a
// number of experts that is no power of two, one that takes all rows, and as few rows as a chunk can have.
func TestRelatives(t *testing.T) {
	d := openDevice(t)
	for name, ck := range checkpointtest.Relatives() {
		t.Run(name, func(t *testing.T) {
			if ck.Shape.Hidden%8 != 0 { // no kernel serves it
				if _, err := New(d, ck, Options{}); err == nil || !strings.Contains(err.Error(), "100 columns: want a multiple of 8") {
					t.Errorf("vectors of %d numbers: %v", ck.Shape.Hidden, err)
				}
				return
			}
			m := newModel(t, d, ck, Options{})
			asTwins(t, ck, m, [][]int32{someTokens(75, m.Vocab()), slices.Repeat([]int32{5}, 40)}, func(at int) int { return min(8+3*at, 41) })
		})
	}
}

// twinForward computes tokens as one unit with the twins alone: the logits of all.
func twinForward(t testing.TB, m *Model, s *sequence, tokens []int32) []float32 {
	t.Helper()
	vocab := m.Vocab()
	logits := make([]float32, len(tokens)*vocab)
	store := func(c *checker, o *op) error {
		c.store(c.twin(o))
		return c.err
	}
	if len(tokens) < fewestInChunk {
		for i, id := range tokens {
			if _, err := m.byTwins(s, id, store); err != nil {
				t.Fatal(err)
			}
			if err := m.readLogits(0, logits[i*vocab:][:vocab]); err != nil {
				t.Fatal(err)
			}
		}
		return logits
	}
	if _, err := m.chunkByTwins(s, tokens, store); err != nil {
		t.Fatal(err)
	}
	for i := range tokens {
		head, err := m.head(i, 1)
		if err == nil {
			_, err = m.eachOp(head, store)
			closeOps(head)
		}
		if err == nil {
			err = m.chunk.logits.Buffer.Read(bytesOf(logits[i*vocab:][:vocab]), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return logits
}

// TestEveryDispatch compares each dispatch of tokens of a prompt and of an answer with its twin.
func TestEveryDispatch(t *testing.T) {
	d := openDevice(t)
	for name, ck := range checkpoints(t) {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, d, ck, Options{})
			s := newSequence(t, m)
			tokens := someTokens(70, m.Vocab())
			forward(t, s, tokens[:3], 0, m.Vocab())
			checkTokens(t, m, s, tokens[3:5])
			forward(t, s, tokens[5:63], 0, m.Vocab())
			checkTokens(t, m, s, tokens[63:66]) // into the second block
		})
	}
}

// checkTokens wants every dispatch of tokens to agree with its twin.
func checkTokens(t testing.TB, m *Model, s state.Sequence, tokens []int32) {
	t.Helper()
	for _, id := range tokens {
		n, err := m.Check(s, id, func(kind string, layer int, err error) {
			if err != nil {
				t.Errorf("position %d, layer %d, %s: %v", s.Len(), layer, kind, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if n < 4*len(m.weights.layers) {
			t.Errorf("only %d dispatches were compared", n)
		}
	}
}

// checkpoints are those with real weights.
func checkpoints(t testing.TB) map[string]*checkpoint.Checkpoint {
	return map[string]*checkpoint.Checkpoint{
		"demo": openDemo(t), "moe": openTiny(t, "tiny-moe-r3", 0), "moe, 4 bits": openTiny(t, "tiny-moe-r3", 4),
		"dense": openTiny(t, "tiny-dense-tied-r1", 0), "dense, 8 bits": openTiny(t, "tiny-dense-tied-r1", 8),
	}
}
