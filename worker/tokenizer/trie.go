package tokenizer

// trie finds added tokens in text.
type trie struct {
	nodes []trieNode // nodes[0] is the root
	first [256]bool  // bytes that some token starts with
}

type trieNode struct {
	next map[byte]int32 // index in nodes
	id   int32          // token that ends here, or -1
}

func newTrie() *trie { return &trie{nodes: []trieNode{{id: -1}}} }

// add puts one token in and reports whether it is new.
func (t *trie) add(content string, id int32) bool {
	t.first[content[0]] = true
	at := int32(0)
	for i := range len(content) {
		to, ok := t.nodes[at].next[content[i]]
		if !ok {
			if t.nodes[at].next == nil {
				t.nodes[at].next = make(map[byte]int32, 1)
			}
			to = int32(len(t.nodes))
			t.nodes[at].next[content[i]] = to
			t.nodes = append(t.nodes, trieNode{id: -1})
		}
		at = to
	}
	isNew := t.nodes[at].id < 0
	t.nodes[at].id = id
	return isNew
}

// find returns the leftmost match in text, and of those that start there the longest; id is -1 if there is none.
func (t *trie) find(text string) (start, end int, id int32) {
	for start := range len(text) {
		if !t.first[text[start]] {
			continue
		}
		if end, id := t.longest(text, start); id >= 0 {
			return start, end, id
		}
	}
	return len(text), len(text), -1
}

// longest returns the longest token that starts at start.
func (t *trie) longest(text string, start int) (end int, id int32) {
	id = -1
	for at, i := int32(0), start; i < len(text); i++ {
		to, ok := t.nodes[at].next[text[i]]
		if !ok {
			break
		}
		if at = to; t.nodes[at].id >= 0 {
			end, id = i+1, t.nodes[at].id
		}
	}
	return end, id
}
