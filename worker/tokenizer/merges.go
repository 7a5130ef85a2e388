package tokenizer

// merge is a rule's outcome: the token that two tokens become, and the rule's rank.
type merge struct {
	rank uint32
	id   int32
}

// mergeTable maps pairs of ids, left<<32 | right, to merges.
type mergeTable map[uint64]merge

// put sets the merge of a pair; the last one counts, as in Hugging Face's table.
func (t mergeTable) put(left, right int32, m merge) { t[uint64(left)<<32|uint64(right)] = m }

// get returns the merge of a pair, of rank noRank if there is none.
func (t mergeTable) get(left, right int32) merge {
	if m, ok := t[uint64(left)<<32|uint64(right)]; ok {
		return m
	}
	return merge{rank: noRank}
}
