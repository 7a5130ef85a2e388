package state_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lilypad/protocol"
	"lilypad/worker/state"
	"lilypad/worker/state/statetest"
)

// vocab of the property tests: small, so that sequences share prefixes.
const vocab = 3

// model is what a test knows of one loan.
type model struct {
	lease  *state.Lease
	tokens []int32 // the request's
}

// machine drives a Store with random requests and checks it against what is plainly true.
type machine struct {
	backend      *statetest.Backend
	store        *state.Store
	loans        []model
	idle, points [][]int32 // tokens of the idle states and of the checkpoints, if nothing was ever dropped
	roomy        bool      // nothing is ever dropped
}

// put adds tokens to a set.
func put(set [][]int32, tokens []int32) [][]int32 {
	if len(tokens) == 0 || slices.ContainsFunc(set, func(k []int32) bool { return slices.Equal(k, tokens) }) {
		return set
	}
	return append(set, tokens)
}

func (m *machine) acquire(rt *rapid.T) {
	if len(m.loans) == 4 {
		return
	}
	tokens := rapid.SliceOfN(rapid.Int32Range(0, vocab-1), 1, 40).Draw(rt, "tokens")
	kept := slices.Concat(m.idle, m.points)
	if len(kept) > 0 && rapid.Bool().Draw(rt, "extend") {
		old := rapid.SampledFrom(kept).Draw(rt, "old")
		tokens = append(slices.Clone(old[:rapid.IntRange(0, len(old)).Draw(rt, "cut")]), tokens...)
	}
	l, started, err := m.store.Acquire(tokens, nil)
	if protocol.CodeOf(err) == protocol.CodeMemory && !m.roomy {
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	want := 0
	for _, k := range kept {
		if len(k) < len(tokens) && slices.Equal(k, tokens[:len(k)]) {
			want = max(want, len(k))
		}
	}
	if m.roomy && started.Cached != want || started.Cached > want {
		rt.Fatalf("%d tokens cached, want %d", started.Cached, want)
	}
	if (started.Miss == "") != (started.Cached == len(tokens)-1) || state.Length(started.Schedule) != started.Cached {
		rt.Fatalf("%+v for %d tokens", started, len(tokens))
	}
	if !slices.Equal(l.Tokens(), tokens[:started.Cached]) {
		rt.Fatalf("lent %v, want %v", l.Tokens(), tokens[:started.Cached])
	}
	m.loans = append(m.loans, model{l, tokens})
	// An idle state is handed over before a checkpoint of the same length is forked.
	m.idle = slices.DeleteFunc(m.idle, func(k []int32) bool { return m.roomy && slices.Equal(k, l.Tokens()) })
}

func (m *machine) compute(rt *rapid.T) {
	loan := m.pick(rt)
	if loan == nil || loan.lease.Len() == len(loan.tokens) {
		return
	}
	at := loan.lease.Len()
	n := rapid.IntRange(1, len(loan.tokens)-at).Draw(rt, "n")
	logits := make([]float32, vocab)
	var err error
	if n == 1 {
		err = loan.lease.Decode(loan.tokens[at], logits)
	} else {
		err = loan.lease.Prefill(loan.tokens[at:at+n], 1, logits)
	}
	if err != nil {
		if protocol.CodeOf(err) == protocol.CodeMemory && !m.roomy {
			return
		}
		rt.Fatal(err)
	}
	// The state is exactly that of the tokens: the logits of a fresh, unlimited sequence agree.
	fresh := &statetest.Backend{Vocab: vocab}
	seq, _ := fresh.New()
	_ = seq.Grow(at + n)
	want := make([]float32, vocab)
	_ = seq.Forward(loan.tokens[:at+n], 1, want)
	if !slices.Equal(logits, want) {
		rt.Fatalf("logits after %v are %v, want %v", loan.tokens[:at+n], logits, want)
	}
}

func (m *machine) checkpoint(rt *rapid.T) {
	loan := m.pick(rt)
	if loan == nil {
		return
	}
	if err := loan.lease.Checkpoint(rapid.Bool().Draw(rt, "wanted")); err != nil {
		rt.Fatal(err)
	}
	m.points = put(m.points, loan.lease.Tokens())
}

func (m *machine) release(rt *rapid.T) {
	loan := m.pick(rt)
	if loan == nil {
		return
	}
	tokens := loan.lease.Tokens()
	if rapid.IntRange(0, 4).Draw(rt, "discard") == 0 {
		loan.lease.Discard()
	} else {
		loan.lease.Release()
		m.idle = put(m.idle, tokens)
	}
	loan.lease.Release() // a second end does nothing
	m.loans = slices.DeleteFunc(m.loans, func(o model) bool { return o.lease == loan.lease })
}

func (m *machine) pick(rt *rapid.T) *model {
	if len(m.loans) == 0 {
		return nil
	}
	return &m.loans[rapid.IntRange(0, len(m.loans)-1).Draw(rt, "loan")]
}

func (m *machine) check(rt *rapid.T) {
	if m.backend.Limit > 0 && m.backend.Bytes() > m.backend.Limit {
		rt.Fatalf("%d bytes held, the budget is %d", m.backend.Bytes(), m.backend.Limit)
	}
	sequences, checkpoints := m.store.Counts()
	if int64(sequences+checkpoints) != m.backend.Alive() {
		rt.Fatalf("%d sequences and %d checkpoints held, %d objects alive", sequences, checkpoints, m.backend.Alive())
	}
	if m.roomy && (sequences != len(m.loans)+len(m.idle) || checkpoints != len(m.points)) {
		rt.Fatalf("%d sequences and %d checkpoints, want %d lent, %d idle and %d checkpoints", sequences, checkpoints, len(m.loans), len(m.idle), len(m.points))
	}
	for _, l := range m.loans {
		if !slices.Equal(l.lease.Tokens(), l.tokens[:l.lease.Len()]) {
			rt.Fatalf("a lent state changed: %v, want %v", l.lease.Tokens(), l.tokens[:l.lease.Len()])
		}
	}
}

func TestStoreProperties(t *testing.T) {
	for _, limit := range []int64{0, 3000, 700} {
		rapid.Check(t, func(rt *rapid.T) {
			b := &statetest.Backend{Vocab: vocab, Limit: limit}
			m := &machine{backend: b, store: state.NewStore(b, limit), roomy: limit == 0}
			rt.Repeat(map[string]func(*rapid.T){
				"acquire":    m.acquire,
				"compute":    m.compute,
				"checkpoint": m.checkpoint,
				"release":    m.release,
				"":           m.check,
			})
			m.store.Close()
			if b.Alive() != 0 || b.Bytes() != 0 {
				rt.Fatalf("%d objects and %d bytes left after Close", b.Alive(), b.Bytes())
			}
		})
	}
}
