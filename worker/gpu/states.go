package gpu

import (
	"encoding/binary"
	"fmt"

	"lilypad/metal"
	"lilypad/protocol"
	"lilypad/worker/model"
	"lilypad/worker/state"
)

// blockTokens is the number of tokens in one KV block.
const blockTokens = 64

// blocksFor is the number of blocks that hold n tokens.
func blocksFor(n int) int { return (n + blockTokens - 1) / blockTokens }

// states is the memory of all sequences and snapshots. A slot is a recurrent state, a conv window and a row of the block
// table. Sequences have two slots, of which one holds the state at Len and the other is written by the next step;
// snapshots have one. Blocks hold keys and values of blockTokens consecutive tokens and are shared: a block is
// append-only, written only by the sequence that made it, at positions that no snapshot of it covers.
type states struct {
	shape     *model.Shape
	recurrent arena // fp32 [slot][delta layer][ValueHeads][ValueDim][KeyDim]
	conv      arena // bf16 [slot][delta layer][Conv-1][ConvChannels]
	table     arena // uint32 [slot][entries]: block ids
	kv        arena // bf16 [block][attention layer][2][KVHeads][blockTokens][HeadDim]
	entries   int   // of a row of the table
	refs      []int // by block
	memory    state.Ledger
}

// newStates makes room for a few sequences of at most context tokens.
func newStates(d *metal.Device, s *model.Shape, context int, limit int64) (*states, error) {
	st := &states{shape: s, entries: blocksFor(context)}
	st.memory.Limit = limit
	const slots, blocks = 4, 8
	for _, a := range []struct {
		arena *arena
		each  int64
		n     int
	}{
		{&st.recurrent, max(s.RecurrentBytes(), 16), slots},
		{&st.conv, max(s.ConvBytes(2), 16), slots},
		{&st.table, int64(4 * st.entries), slots},
		{&st.kv, max(s.KVBytes(2)*blockTokens, 16), blocks},
	} {
		if a.each%4 != 0 {
			st.close()
			return nil, protocol.Errorf(protocol.CodeCheckpoint, "the GPU backend needs conv windows of whole 4 bytes, these have %d", a.each)
		}
		var err error
		if *a.arena, err = newArena(d, a.each, a.n); err != nil {
			st.close()
			return nil, fmt.Errorf("states: %w", err)
		}
	}
	st.recurrent.next, st.conv.next, st.table.next = 1, 1, 1
	for _, a := range []*arena{&st.recurrent, &st.conv} {
		if err := a.clear(0); err != nil {
			st.close()
			return nil, fmt.Errorf("states: %w", err)
		}
	}
	return st, nil
}

func (st *states) close() {
	for _, a := range []*arena{&st.recurrent, &st.conv, &st.table, &st.kv} {
		if a.buffer != nil {
			a.buffer.Close()
		}
	}
}

// slotBytes is what a snapshot holds beside shared blocks.
func (st *states) slotBytes() int64 { return st.shape.StateBytes(2) }

// blockBytes is the size of one KV block.
func (st *states) blockBytes() int64 { return blockTokens * st.shape.KVBytes(2) }

// takeSlots gives out n slots with undefined contents, or an error of protocol.CodeMemory and none.
func (m *Model) takeSlots(n int) ([]int32, error) {
	st := m.states
	if err := st.memory.Take(int64(n) * st.slotBytes()); err != nil {
		return nil, err
	}
	if err := m.roomFor(n, &st.recurrent, &st.conv, &st.table); err != nil {
		st.memory.Give(int64(n) * st.slotBytes())
		return nil, err
	}
	slots := make([]int32, n)
	for i := range slots {
		slots[i], _ = st.recurrent.take() // the three arenas give out in step
		st.conv.take()
		st.table.take()
	}
	return slots, nil
}

func (st *states) giveSlots(slots ...int32) {
	for _, s := range slots {
		st.recurrent.give(s)
		st.conv.give(s)
		st.table.give(s)
	}
	st.memory.Give(int64(len(slots)) * st.slotBytes())
}

// takeBlocks gives out n blocks with one reference each, or an error of protocol.CodeMemory and none.
func (m *Model) takeBlocks(n int) ([]int32, error) {
	st := m.states
	if err := st.memory.Take(int64(n) * st.blockBytes()); err != nil {
		return nil, err
	}
	if err := m.roomFor(n, &st.kv); err != nil {
		st.memory.Give(int64(n) * st.blockBytes())
		return nil, err
	}
	for len(st.refs) < st.kv.capacity {
		st.refs = append(st.refs, 0)
	}
	blocks := make([]int32, n)
	for i := range blocks {
		blocks[i], _ = st.kv.take()
		st.refs[blocks[i]] = 1
	}
	return blocks, nil
}

// share adds a reference to each block.
func (st *states) share(blocks []int32) []int32 {
	for _, b := range blocks {
		st.refs[b]++
	}
	return append([]int32(nil), blocks...)
}

// release drops a reference to each block.
func (st *states) release(blocks []int32) {
	for _, b := range blocks {
		st.refs[b]--
		if st.refs[b] < 0 {
			panic("BUG: KV block released twice")
		}
		if st.refs[b] == 0 {
			st.kv.give(b)
			st.memory.Give(st.blockBytes())
		}
	}
}

// ownBytes is the size of the blocks that nobody else refers to.
func (st *states) ownBytes(blocks []int32) int64 {
	n := int64(0)
	for _, b := range blocks {
		if st.refs[b] == 1 {
			n += st.blockBytes()
		}
	}
	return n
}

// roomFor makes each of the arenas able to give out n more.
func (m *Model) roomFor(n int, arenas ...*arena) error {
	for _, a := range arenas {
		missing := n - a.available()
		if missing <= 0 {
			continue
		}
		want := min(max(2*a.capacity, a.capacity+missing), a.most(m.device))
		if want < a.capacity+missing {
			return noMemory(int64(n)*a.each, fmt.Sprintf("but a buffer of this GPU holds %d of %d bytes at most", want, a.each))
		}
		if err := m.rest(); err != nil {
			return err
		}
		m.dropPlan()
		if err := m.grow(a, want); err != nil {
			return err
		}
	}
	return nil
}

// writeTable enters blocks from entry from on into the row of the block table that belongs to slot.
func (st *states) writeTable(slot int32, from int, blocks []int32) error {
	data := make([]byte, 4*len(blocks))
	for i, b := range blocks {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(b))
	}
	return st.table.buffer.Write(data, int64(slot)*st.table.each+int64(4*from))
}
