package tokenizer

import "math"

// maxShort is the longest piece in bytes that mergeShort takes: up to here a simple loop beats the heap.
const maxShort = 48

// noRank is the rank of two tokens that don't merge.
const noRank = math.MaxUint32

// mergeShort returns the ids of a piece of at most maxShort bytes. Its loop is quadratic: find the lowest rank, leftmost
// among equals, merge there, and begin again.
func (t *Tokenizer) mergeShort(piece string) []int32 {
	var symbols [maxShort]int32
	var ranks [maxShort]uint32 // ranks[i] is of symbols[i] and symbols[i+1]
	n := len(piece)
	for i := range n {
		symbols[i] = t.bytes[piece[i]]
	}
	for i := range n - 1 {
		ranks[i] = t.merges.get(symbols[i], symbols[i+1]).rank
	}
	for n > 1 {
		best := 0
		for i := 1; i < n-1; i++ {
			if ranks[i] < ranks[best] {
				best = i
			}
		}
		if ranks[best] == noRank {
			break
		}
		symbols[best] = t.merges.get(symbols[best], symbols[best+1]).id
		copy(symbols[best+1:n-1], symbols[best+2:n])
		copy(ranks[best:n-2], ranks[best+1:n-1])
		n--
		if best > 0 {
			ranks[best-1] = t.merges.get(symbols[best-1], symbols[best]).rank
		}
		if best < n-1 {
			ranks[best] = t.merges.get(symbols[best], symbols[best+1]).rank
		}
	}
	return append([]int32(nil), symbols[:n]...)
}

// mergeLong appends the ids of a piece of any length in O(n log n): the symbols are a linked list over the positions of
// their first bytes, and a heap gives the next merge. A heap entry is out of date if the rank at its position changed.
func (t *Tokenizer) mergeLong(ids []int32, piece string) []int32 {
	n := len(piece)
	list := make([]symbol, n)
	for i := range list {
		list[i] = symbol{id: t.bytes[piece[i]], prev: int32(i) - 1, next: int32(i) + 1, rank: noRank}
	}
	heap := make(mergeHeap, 0, n)
	for i := range n - 1 {
		list[i].rank = t.merges.get(list[i].id, list[i+1].id).rank
		if list[i].rank != noRank {
			heap = append(heap, mergeAt(list[i].rank, int32(i)))
		}
	}
	heap.init()
	// rerank looks up the pair that starts at position i.
	rerank := func(i int32) {
		s := &list[i]
		s.rank = noRank
		if int(s.next) < n {
			s.rank = t.merges.get(s.id, list[s.next].id).rank
		}
		if s.rank != noRank {
			heap.push(mergeAt(s.rank, i))
		}
	}
	for len(heap) > 0 {
		rank, i := heap.pop()
		left := &list[i]
		if left.rank != rank {
			continue
		}
		right := &list[left.next]
		left.id = t.merges.get(left.id, right.id).id
		left.next = right.next
		right.rank = noRank
		if int(left.next) < n {
			list[left.next].prev = i
		}
		rerank(i)
		if left.prev >= 0 {
			rerank(left.prev)
		}
	}
	for i := 0; i < n; i = int(list[i].next) {
		ids = append(ids, list[i].id)
	}
	return ids
}

// symbol is a token of a piece that is being merged, at the position of its first byte.
type symbol struct {
	id         int32
	prev, next int32  // positions of the neighbours: -1 before the first, the piece's length after the last
	rank       uint32 // of this symbol and the next
}
