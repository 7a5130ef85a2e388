package gpu

import (
	"unsafe"

	"lilypad/worker/state"
)

// sequence is a state.Sequence. The state at len is in slots[current]; a step reads it and writes the other slot, so
// a step taken ahead, and then not wanted, leaves it as it is. Keys and values beyond len are not looked at.
type sequence struct {
	m       *Model
	len     int
	slots   [2]int32
	current int
	blocks  []int32 // may reach beyond len
	closed  bool
}

// snapshot is a state.Snapshot.
type snapshot struct {
	m      *Model
	len    int
	slot   int32
	blocks []int32
	closed bool
}

var (
	_ state.Sequence = (*sequence)(nil)
	_ state.Stepper  = (*sequence)(nil)
	_ state.Snapshot = (*snapshot)(nil)
)

// New makes an empty sequence.
func (m *Model) New() (state.Sequence, error) { return m.newSequence(0) }

// newSequence makes a sequence whose state is a copy of a slot's.
func (m *Model) newSequence(from int32) (*sequence, error) {
	slots, err := m.takeSlots(2)
	if err != nil {
		return nil, err
	}
	s := &sequence{m: m, slots: [2]int32(slots)}
	if err := m.copySlot(slots[0], from); err != nil {
		m.states.giveSlots(slots...)
		return nil, err
	}
	return s, nil
}

// copySlot copies recurrent state and conv window.
func (m *Model) copySlot(to, from int32) error {
	st := m.states
	for _, a := range []*arena{&st.recurrent, &st.conv} {
		if err := m.copy(a.at(to), a.at(from), a.each); err != nil {
			return err
		}
	}
	return nil
}

// Len is the number of tokens computed.
func (s *sequence) Len() int { return s.len }

// advance says that a token was computed.
func (s *sequence) advance() {
	s.len++
	s.current ^= 1
}

// advanceChunk says that a chunk of n tokens was computed.
func (s *sequence) advanceChunk(n int) {
	s.len += n
	s.current ^= 1
}

// Grow makes room for n more tokens. It returns an error of protocol.CodeContextLength beyond Options.Context and of
// protocol.CodeMemory beyond Options.Limit or the GPU's memory; the sequence is then as before and may go on.
func (s *sequence) Grow(n int) error {
	if s.closed || n < 0 {
		panic("BUG: Grow on a closed sequence, or by a negative number of tokens")
	}
	want := s.len + n
	if err := state.CheckLength(want, s.m.opt.Context); err != nil {
		return err
	}
	missing := blocksFor(want) - len(s.blocks)
	if missing <= 0 {
		return nil
	}
	blocks, err := s.m.takeBlocks(missing)
	if err != nil {
		return err
	}
	if err := s.m.states.writeTable(s.slots[0], len(s.blocks), blocks); err != nil {
		s.m.states.release(blocks)
		return err
	}
	s.blocks = append(s.blocks, blocks...)
	return nil
}

// Forward computes tokens; see state.Sequence. An id outside the vocabulary or a wrong buffer is an error that changes
// nothing.
func (s *sequence) Forward(tokens []int32, rows int, logits []float32) error {
	return s.ForwardUntil(nil, tokens, rows, logits)
}

// ForwardUntil is Forward that stop can end; see state.Stoppable.
func (s *sequence) ForwardUntil(stop func() bool, tokens []int32, rows int, logits []float32) error {
	if s.closed {
		panic("BUG: Forward on a closed sequence")
	}
	vocab := s.m.shape.Vocab
	if err := state.CheckForward(tokens, s.len, rows, logits, vocab); err != nil {
		return err
	}
	if err := s.Grow(len(tokens)); err != nil {
		return err
	}
	if err := s.m.rest(); err != nil {
		return err
	}
	if len(tokens) >= fewestInChunk {
		return s.m.prefill(s, tokens, rows, logits, stop)
	}
	for i, id := range tokens {
		var out []float32
		if wanted := i - (len(tokens) - rows); wanted >= 0 {
			out = logits[wanted*vocab:][:vocab]
		}
		if err := s.m.forward(s, id, out); err != nil {
			return err
		}
	}
	return nil
}

// Snapshot freezes the state at Len; see state.Sequence. A step taken ahead goes on.
func (s *sequence) Snapshot() (state.Snapshot, error) {
	if s.closed {
		panic("BUG: Snapshot of a closed sequence")
	}
	slots, err := s.m.takeSlots(1)
	if err != nil {
		return nil, err
	}
	if err := s.m.copySlot(slots[0], s.slots[s.current]); err != nil {
		s.m.states.giveSlots(slots...)
		return nil, err
	}
	return &snapshot{m: s.m, len: s.len, slot: slots[0], blocks: s.m.states.share(s.blocks[:blocksFor(s.len)])}, nil
}

// Bytes is the memory that only this sequence holds.
func (s *sequence) Bytes() int64 {
	if s.closed {
		return 0
	}
	return 2*s.m.SnapshotBytes() + s.m.states.ownBytes(s.blocks)
}

// Close frees the sequence. It is safe to call twice.
func (s *sequence) Close() {
	if s.closed {
		return
	}
	s.closed = true
	if s.m.runner.ahead.seq == s {
		_ = s.m.rest() // a failure of the GPU shows at the next step of another sequence
	}
	if s.m.runner.last == s {
		s.m.runner.last = nil
	}
	s.m.states.release(s.blocks)
	s.m.states.giveSlots(s.slots[:]...)
	s.blocks = nil
}

// Len is the number of tokens in the state.
func (n *snapshot) Len() int { return n.len }

// Resume makes a sequence that continues from the snapshot: it shares the full blocks and copies the partly filled one.
func (n *snapshot) Resume() (state.Sequence, error) {
	if n.closed {
		panic("BUG: Resume of a closed snapshot")
	}
	m := n.m
	s, err := m.newSequence(n.slot)
	if err != nil {
		return nil, err
	}
	s.len = n.len
	full := n.len / blockTokens
	s.blocks = m.states.share(n.blocks[:full])
	if full < len(n.blocks) {
		own, err := m.takeBlocks(1)
		if err == nil {
			s.blocks = append(s.blocks, own[0])
			err = m.copy(m.states.kv.at(own[0]), m.states.kv.at(n.blocks[full]), m.states.kv.each)
		}
		if err != nil {
			s.Close()
			return nil, err
		}
	}
	if err := m.states.writeTable(s.slots[0], 0, s.blocks); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Bytes is the memory that only this snapshot holds.
func (n *snapshot) Bytes() int64 {
	if n.closed {
		return 0
	}
	return n.m.SnapshotBytes() + n.m.states.ownBytes(n.blocks)
}

// Close frees the snapshot. It is safe to call twice.
func (n *snapshot) Close() {
	if n.closed {
		return
	}
	n.closed = true
	n.m.states.release(n.blocks)
	n.m.states.giveSlots(n.slot)
	n.blocks = nil
}

// bytesOf is the memory of numbers.
func bytesOf(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
