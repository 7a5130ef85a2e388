// Package statetest is a backend for tests of the store and the engine: its state is a hash of the tokens computed, so a
// state that was mixed up, shared or computed twice shows in the logits. It counts what is alive, enforces its byte
// limit, and panics when it is misused. It must not be imported outside tests.
package statetest

import (
	"math"
	"slices"
	"sync/atomic"

	"lilypad/protocol"
	"lilypad/worker/state"
)

// Sizes of the backend in bytes.
const (
	Block      = 16                 // tokens of one KV block
	TokenBytes = 10                 // KV of one token
	BlockBytes = Block * TokenBytes //
	StateBytes = 100                // conv and recurrent state of a sequence or snapshot
)

// Backend implements state.Backend. Its fields are set before use.
type Backend struct {
	Vocab   int
	Limit   int64                                  // of Bytes; 0 for none
	Chunky  bool                                   // logits depend on how tokens were cut into chunks
	Forward func(tokens []int32) error             // called before each Forward, if set; may block or fail
	Score   func(tokens []int32, logits []float32) // replaces the logits after tokens, if set

	bytes, alive, Computed int64 // bytes and objects alive, tokens computed
	entered                atomic.Bool
}

var _ state.Backend = (*Backend)(nil)

// enter panics when two goroutines are inside the backend at once.
func (b *Backend) enter() func() {
	if b.entered.Swap(true) {
		panic("BUG: two goroutines use the backend at once")
	}
	return func() { b.entered.Store(false) }
}

// take reserves bytes or refuses.
func (b *Backend) take(n int64) error {
	if b.Limit > 0 && b.bytes+n > b.Limit {
		err := protocol.Errorf(protocol.CodeMemory, "%d bytes of state are free, %d are needed", b.Limit-b.bytes, n)
		err.Have, err.Want = b.Limit-b.bytes, n
		return err
	}
	b.bytes += n
	return nil
}

// Kernels implements state.Backend.
func (b *Backend) Kernels() string {
	if b.Chunky {
		return "test/chunky"
	}
	return "test/plain"
}

// ChunkIndependent implements state.Backend.
func (b *Backend) ChunkIndependent() bool { return !b.Chunky }

// Chunk implements state.Backend.
func (b *Backend) Chunk() int { return 128 }

// Bytes implements state.Backend.
func (b *Backend) Bytes() int64 { return b.bytes }

// Alive is the number of sequences and snapshots not yet closed.
func (b *Backend) Alive() int64 { return b.alive }

// SnapshotBytes implements state.Backend.
func (b *Backend) SnapshotBytes() int64 { return StateBytes }

// TokenBytes implements state.Backend.
func (b *Backend) TokenBytes() int64 { return TokenBytes }

// Close implements state.Backend.
func (b *Backend) Close() error { return nil }

// New implements state.Backend.
func (b *Backend) New() (state.Sequence, error) {
	defer b.enter()()
	if err := b.take(StateBytes); err != nil {
		return nil, err
	}
	b.alive++
	return &Sequence{backend: b}, nil
}

// block is KV shared by sequences and snapshots.
type block struct{ refs int }

// Sequence implements state.Sequence.
type Sequence struct {
	backend *Backend
	tokens  []int32
	hash    uint64
	blocks  []*block
	closed  bool
	failed  bool
}

// Tokens are those that the sequence was computed from.
func (s *Sequence) Tokens() []int32 { return s.tokens }

// Len implements state.Sequence.
func (s *Sequence) Len() int { return len(s.tokens) }

// Bytes implements state.Sequence.
func (s *Sequence) Bytes() int64 { return StateBytes }

// Grow implements state.Sequence: whole blocks, and a copy of the last one while it is shared.
func (s *Sequence) Grow(n int) error {
	defer s.use()()
	need := (len(s.tokens) + n + Block - 1) / Block
	last := len(s.tokens) / Block // the block that is written next
	copies := last < len(s.blocks) && s.blocks[last].refs > 1
	more := int64(max(0, need-len(s.blocks)))
	if copies {
		more++
	}
	if err := s.backend.take(more * BlockBytes); err != nil {
		return err
	}
	if copies {
		s.blocks[last].refs--
		s.blocks[last] = &block{refs: 1}
	}
	for len(s.blocks) < need {
		s.blocks = append(s.blocks, &block{refs: 1})
	}
	return nil
}

// Forward implements state.Sequence.
func (s *Sequence) Forward(tokens []int32, rows int, logits []float32) error {
	defer s.use()()
	b := s.backend
	if len(s.tokens)+len(tokens) > len(s.blocks)*Block {
		panic("BUG: Forward without room for its tokens")
	}
	if rows > len(tokens) || len(logits) < rows*b.Vocab {
		panic("BUG: Forward with too many rows or too few logits")
	}
	if last := len(s.tokens) / Block; s.blocks[last].refs > 1 {
		panic("BUG: Forward writes a shared block")
	}
	if b.Forward != nil {
		if err := b.Forward(tokens); err != nil {
			s.failed = true
			return err
		}
	}
	for i, id := range tokens {
		s.tokens = append(s.tokens, id)
		s.hash = mix(s.hash ^ uint64(uint32(id)))
		if b.Chunky {
			s.hash = mix(s.hash + uint64(len(tokens)))
		}
		if row := i - (len(tokens) - rows); row >= 0 {
			b.logits(s, logits[row*b.Vocab:(row+1)*b.Vocab])
		}
	}
	b.Computed += int64(len(tokens))
	return nil
}

func (b *Backend) logits(s *Sequence, out []float32) {
	h := s.hash
	for i := range out {
		h = mix(h + uint64(i))
		out[i] = float32(h>>40)/(1<<24)*8 - 4
	}
	if b.Score != nil {
		b.Score(s.tokens, out)
	}
}

// mix is the finaliser of SplitMix64.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Snapshot implements state.Sequence.
func (s *Sequence) Snapshot() (state.Snapshot, error) {
	defer s.use()()
	if err := s.backend.take(StateBytes); err != nil {
		return nil, err
	}
	s.backend.alive++
	full := (len(s.tokens) + Block - 1) / Block
	return &Snapshot{frozen: Sequence{backend: s.backend, tokens: slices.Clip(s.tokens), hash: s.hash, blocks: share(s.blocks[:full])}}, nil
}

// Close implements state.Sequence.
func (s *Sequence) Close() {
	if s.closed {
		return
	}
	defer s.backend.enter()()
	s.closed = true
	s.backend.alive--
	s.backend.bytes -= StateBytes
	for _, b := range s.blocks {
		if b.refs--; b.refs == 0 {
			s.backend.bytes -= BlockBytes
		}
	}
}

func (s *Sequence) use() func() {
	if s.closed || s.failed {
		panic("BUG: a closed or failed sequence is used")
	}
	return s.backend.enter()
}

func share(blocks []*block) []*block {
	for _, b := range blocks {
		b.refs++
	}
	return slices.Clone(blocks)
}

// Snapshot implements state.Snapshot.
type Snapshot struct{ frozen Sequence }

// Len implements state.Snapshot.
func (s *Snapshot) Len() int { return s.frozen.Len() }

// Bytes implements state.Snapshot.
func (s *Snapshot) Bytes() int64 { return StateBytes }

// Close implements state.Snapshot.
func (s *Snapshot) Close() { s.frozen.Close() }

// Resume implements state.Snapshot.
func (s *Snapshot) Resume() (state.Sequence, error) {
	defer s.frozen.use()()
	b := s.frozen.backend
	if err := b.take(StateBytes); err != nil {
		return nil, err
	}
	b.alive++
	return &Sequence{backend: b, tokens: slices.Clone(s.frozen.tokens), hash: s.frozen.hash, blocks: share(s.frozen.blocks)}, nil
}

// Peak makes logits that choose one token for certain.
func Peak(logits []float32, id int32) {
	for i := range logits {
		logits[i] = float32(math.Inf(-1))
	}
	logits[id] = 0
}
