package state

import (
	"slices"

	"lilypad/protocol"
)

const (
	maxHeld  = 512 // cached states, whatever their bytes: bounds the search for a prefix
	maxGhost = 64  // dropped states that are remembered, to tell a client why its prefix was not cached
)

// Store keeps the states of one backend: those lent to requests (Lease), idle ones and checkpoints. The backend's own
// limit is the byte budget; when the backend refuses, the Store drops what is needed least and tries again. All calls
// come from the compute thread.
type Store struct {
	backend Backend
	budget  int64 // the backend's limit, to refuse at once what can never fit; 0 for none
	held    []*held
	leases  map[*Lease]bool
	ghosts  [][]int32 // tokens of dropped states, oldest first
	clock   uint64
}

// held is one cached state: an idle sequence or a checkpoint.
type held struct {
	tokens   []int32 // exactly those that the state was computed from; shared, never written
	schedule []protocol.Segment
	seq      Sequence // one of these two
	snap     Snapshot
	wanted   bool // a checkpoint that a request asked for, not one of those made in passing
	pinned   bool // in use by the caller further up: not to be dropped
	used     uint64
}

// NewStore makes a Store over backend, which enforces budget bytes; 0 says that it enforces none.
func NewStore(backend Backend, budget int64) *Store {
	return &Store{backend: backend, budget: budget, leases: map[*Lease]bool{}}
}

// Acquire lends the state of the longest cached prefix of tokens, and of at most len(tokens)-1 of them, so that there is
// something to compute logits from. An idle sequence is handed over, a checkpoint is forked. With a schedule, on a
// backend that is not independent of chunking, only states whose own schedule agrees count. The second result says how
// much is cached and why not more. Errors are of protocol.CodeMemory or the backend's.
func (s *Store) Acquire(tokens []int32, schedule []protocol.Segment) (*Lease, protocol.Started, error) {
	if err := s.canFit(len(tokens)); err != nil {
		return nil, protocol.Started{}, err
	}
	s.clock++
	from, miss := s.match(tokens, schedule)
	if from == nil {
		l, err := s.Fresh()
		return l, protocol.Started{Miss: miss}, err
	}
	l := &Lease{store: s, tokens: from.tokens, schedule: slices.Clone(from.schedule), seq: from.seq}
	if from.seq != nil {
		s.forget(from)
	} else {
		from.pinned = true
		err := s.making(func() (err error) { l.seq, err = from.snap.Resume(); return err })
		from.pinned = false
		if err != nil {
			return nil, protocol.Started{}, err
		}
	}
	s.leases[l] = true
	return l, protocol.Started{Cached: len(l.tokens), Miss: miss, Schedule: slices.Clone(l.schedule)}, nil
}

// Fresh lends an empty state.
func (s *Store) Fresh() (*Lease, error) {
	l := &Lease{store: s}
	if err := s.making(func() (err error) { l.seq, err = s.backend.New(); return err }); err != nil {
		return nil, err
	}
	s.leases[l] = true
	return l, nil
}

// canFit refuses a sequence of n tokens that is over the budget even alone, before anything is dropped for it.
func (s *Store) canFit(n int) error {
	want := s.backend.SnapshotBytes() + int64(n)*s.backend.TokenBytes()
	if s.budget == 0 || want <= s.budget {
		return nil
	}
	err := protocol.Errorf(protocol.CodeMemory, "%d tokens need %d bytes of state, the budget is %d: shorten the prompt or raise the state budget", n, want, s.budget)
	err.Have, err.Want = s.budget, want
	return err
}

// keep caches a state.
func (s *Store) keep(h *held) {
	h.used = s.clock
	s.held = append(s.held, h)
	for len(s.held) > maxHeld && s.drop() {
	}
}

// forget removes h from the cache without closing what it holds.
func (s *Store) forget(h *held) {
	if i := slices.Index(s.held, h); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
	}
}

func (h *held) close() {
	if h.seq != nil {
		h.seq.Close()
	} else {
		h.snap.Close()
	}
}

// Counts reports the sequences, lent and idle, and the checkpoints.
func (s *Store) Counts() (sequences, checkpoints int) {
	sequences = len(s.leases)
	for _, h := range s.held {
		if h.seq != nil {
			sequences++
		} else {
			checkpoints++
		}
	}
	return sequences, checkpoints
}

// Close frees everything, also what is still lent.
func (s *Store) Close() {
	for l := range s.leases {
		l.Discard()
	}
	for _, h := range s.held {
		h.close()
	}
	s.held, s.ghosts = nil, nil
}
