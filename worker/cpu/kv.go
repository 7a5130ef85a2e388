package cpu

// blockTokens is the number of tokens in one KV block.
const blockTokens = 64

// block holds keys and values of blockTokens consecutive tokens in every attention layer, fp32 [attnLayers, KVHeads], and
// then keys [headStride, blockTokens] and values [blockTokens, headStride]: either way what attention adds up is rows of a
// matrix. Sequences and snapshots share blocks and count their
// references. A block is append-only: only the sequence that made it writes to it, at positions that no snapshot of it
// covers, so a partly filled block may be shared; a sequence that continues from a snapshot copies that one.
type block struct {
	refs int
	data []float32
}

// newBlocks makes n blocks with one reference each, or returns an error of protocol.CodeMemory and makes none.
func (m *Model) newBlocks(n int) ([]*block, error) {
	if err := m.memory.Take(int64(n) * m.blockBytes()); err != nil {
		return nil, err
	}
	blocks := make([]*block, n)
	for i := range blocks {
		blocks[i] = &block{refs: 1, data: make([]float32, m.blockBytes()/4)}
	}
	return blocks, nil
}

func (m *Model) blockBytes() int64 { return blockTokens * m.TokenBytes() }

// share adds a reference to each block.
func share(blocks []*block) []*block {
	shared := make([]*block, len(blocks))
	copy(shared, blocks)
	for _, b := range shared {
		b.refs++
	}
	return shared
}

// release drops a reference to each block.
func (m *Model) release(blocks []*block) {
	for _, b := range blocks {
		b.refs--
		if b.refs < 0 {
			panic("BUG: KV block released twice")
		}
		if b.refs == 0 {
			b.data = nil
			m.memory.Give(m.blockBytes())
		}
	}
}

// ownBytes is the size of the blocks that nobody else refers to.
func (m *Model) ownBytes(blocks []*block) int64 {
	n := int64(0)
	for _, b := range blocks {
		if b.refs == 1 {
			n += m.blockBytes()
		}
	}
	return n
}

// keys returns the keys of one block for attention layer l and KV head h, fp32 [headStride, blockTokens].
func (m *Model) keys(b *block, l, h int) []float32 {
	n := blockTokens * m.headStride
	at := (l*m.shape.KVHeads + h) * 2 * n
	return b.data[at : at+n]
}

// values is keys for the values, fp32 [blockTokens, headStride].
func (m *Model) values(b *block, l, h int) []float32 {
	n := blockTokens * m.headStride
	at := ((l*m.shape.KVHeads+h)*2 + 1) * n
	return b.data[at : at+n]
}

// blocksFor is the number of blocks that hold n tokens.
func blocksFor(n int) int { return (n + blockTokens - 1) / blockTokens }
