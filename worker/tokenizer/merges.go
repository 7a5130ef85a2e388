package tokenizer

import "math/bits"

// merge is a rule's outcome: the token that two tokens become, and the rule's rank.
type merge struct {
	rank uint32
	id   int32
}

// mergeTable maps pairs of ids to merges. It is an open-addressing table, a third as slow as a Go map here: a long piece
// does several look-ups a byte.
type mergeTable struct {
	keys   []uint64 // left<<32 | right, or noPair
	merges []merge
	shift  int // the top bits of a product are the hash
}

// noPair marks a free slot; ids are below 1<<31.
const noPair = 1<<64 - 1

// newMergeTable makes room for n pairs at a load of at most one half.
func newMergeTable(n int) *mergeTable {
	width := bits.Len(uint(2 * n))
	t := &mergeTable{keys: make([]uint64, 1<<width), merges: make([]merge, 1<<width), shift: 64 - width}
	for i := range t.keys {
		t.keys[i] = noPair
	}
	return t
}

// slot returns where the pair is, or the free slot where it would be.
func (t *mergeTable) slot(key uint64) int {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio
	i := int(key * golden >> t.shift)
	for t.keys[i] != key && t.keys[i] != noPair {
		i = (i + 1) & (len(t.keys) - 1)
	}
	return i
}

// put sets the merge of a pair; the last one counts, as in Hugging Face's table.
func (t *mergeTable) put(left, right int32, m merge) {
	key := uint64(left)<<32 | uint64(right)
	i := t.slot(key)
	t.keys[i], t.merges[i] = key, m
}

// get returns the merge of a pair, of rank noRank if there is none.
func (t *mergeTable) get(left, right int32) merge {
	i := t.slot(uint64(left)<<32 | uint64(right))
	if t.keys[i] == noPair {
		return merge{rank: noRank}
	}
	return t.merges[i]
}
