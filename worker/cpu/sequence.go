package cpu

import (
	"fmt"

	"lilypad/protocol"
	"lilypad/worker/state"
)

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
	if err := s.m.memory.take(s.m.SnapshotBytes()); err != nil {
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
	if want > s.m.opt.Context {
		return &protocol.Error{
			Code: protocol.CodeContextLength, Have: int64(want), Want: int64(s.m.opt.Context),
			Message: fmt.Sprintf("the conversation has %d tokens, but at most %d fit; shorten it or start with a larger --context", want, s.m.opt.Context),
		}
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
	if rows < 0 || rows > len(tokens) || len(logits) < rows*vocab {
		return fmt.Errorf("cpu forward: %d logit rows of %d tokens in a buffer of %d floats, want %d", rows, len(tokens), len(logits), rows*vocab)
	}
	for i, id := range tokens {
		if id < 0 || int(id) >= vocab {
			return protocol.Errorf(protocol.CodeInvalid, "token id %d at position %d is outside the vocabulary of %d", id, s.len+i, vocab)
		}
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
	s.m.memory.give(s.m.SnapshotBytes())
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
