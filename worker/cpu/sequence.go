package cpu

import "lilypad/worker/state"

// sequence is a state.Sequence.
type sequence struct {
	m         *Model
	len       int
	blocks    []*block  // may reach beyond len
	conv      []float32 // see Model.convFloats
	recurrent []float32 // see Model.recurrentFloats
	closed    bool
}

// snapshot is a state.Snapshot: a sequence that never moves.
type snapshot struct{ frozen sequence }

var (
	_ state.Sequence = (*sequence)(nil)
	_ state.Snapshot = (*snapshot)(nil)
)

// allocate makes zeroed conv windows and recurrent states.
func (s *sequence) allocate() error {
	if err := s.m.memory.Take(s.m.SnapshotBytes()); err != nil {
		return err
	}
	s.conv = make([]float32, s.m.convFloats())
	s.recurrent = make([]float32, s.m.recurrentFloats())
	return nil
}

// Len is the number of tokens computed.
func (s *sequence) Len() int { return s.len }

// Grow makes room for n more tokens. It returns an error of protocol.CodeContextLength beyond Options.Context and of
// protocol.CodeMemory beyond Options.Limit; the sequence is then as before and may go on.
func (s *sequence) Grow(n int) error {
	if s.closed {
		panic("BUG: Grow on a closed sequence")
	}
	if n < 0 {
		panic("BUG: Grow by a negative number of tokens")
	}
	want := s.len + n
	if err := state.CheckLength(want, s.m.opt.Context); err != nil {
		return err
	}
	missing := blocksFor(want) - len(s.blocks)
	if missing <= 0 {
		return nil
	}
	blocks, err := s.m.newBlocks(missing)
	if err != nil {
		return err
	}
	s.blocks = append(s.blocks, blocks...)
	return nil
}

// Forward computes tokens; see state.Sequence. An id outside the vocabulary or a wrong buffer is an error that changes
// nothing.
func (s *sequence) Forward(tokens []int32, rows int, logits []float32) error {
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
	pos, skip := s.len, len(tokens)-rows // nobody wants the logits of the first skip tokens
	for at := 0; at < len(tokens); at += maxRows {
		end := min(at+maxRows, len(tokens))
		from := max(at, min(skip, end))
		s.m.pass.run(s, tokens[at:end], pos+at, from-at, logits)
		logits = logits[(end-from)*vocab:]
	}
	s.len = pos + len(tokens)
	return nil
}

// Snapshot freezes the state at Len; see state.Sequence.
func (s *sequence) Snapshot() (state.Snapshot, error) {
	n := snapshot{frozen: sequence{m: s.m, len: s.len}}
	if err := n.frozen.allocate(); err != nil {
		return nil, err
	}
	copy(n.frozen.conv, s.conv)
	copy(n.frozen.recurrent, s.recurrent)
	n.frozen.blocks = share(s.blocks[:blocksFor(s.len)])
	return &n, nil
}

// Bytes is the memory that only this sequence holds.
func (s *sequence) Bytes() int64 {
	if s.closed {
		return 0
	}
	return s.m.SnapshotBytes() + s.m.ownBytes(s.blocks)
}

// Close frees the sequence. It is safe to call twice.
func (s *sequence) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.m.release(s.blocks)
	s.m.memory.Give(s.m.SnapshotBytes())
	s.blocks, s.conv, s.recurrent = nil, nil, nil
}

// Len is the number of tokens in the state.
func (n *snapshot) Len() int { return n.frozen.len }

// Resume makes a sequence that continues from the snapshot: it shares the full blocks and copies the partly filled one.
func (n *snapshot) Resume() (state.Sequence, error) {
	f := &n.frozen
	if f.closed {
		panic("BUG: Resume of a closed snapshot")
	}
	s := &sequence{m: f.m, len: f.len}
	if err := s.allocate(); err != nil {
		return nil, err
	}
	copy(s.conv, f.conv)
	copy(s.recurrent, f.recurrent)
	full := f.len / blockTokens
	s.blocks = share(f.blocks[:full])
	if full < len(f.blocks) {
		own, err := f.m.newBlocks(1)
		if err != nil {
			s.Close()
			return nil, err
		}
		copy(own[0].data, f.blocks[full].data)
		s.blocks = append(s.blocks, own[0])
	}
	return s, nil
}

// Bytes is the memory that only this snapshot holds.
func (n *snapshot) Bytes() int64 { return n.frozen.Bytes() }

// Close frees the snapshot. It is safe to call twice.
func (n *snapshot) Close() { n.frozen.Close() }
