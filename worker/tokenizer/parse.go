package tokenizer

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"lilypad/protocol"
)

// maxID bounds ids, so that a small file can't ask for a large table.
const maxID = 1<<20 - 1

// The pre-tokenizer's regular expressions: qwen35 has combining marks in its letter runs, qwen2 (also Qwen3-Next) has not.
const (
	regexQwen35 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	regexQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// Parse reads a Hugging Face tokenizer.json of the Qwen family. What it says and this package does not do exactly is
// refused with a *protocol.Error of CodeCheckpoint, one sentence. Settings that don't change ids or text of a prompt
// (truncation, padding, unk_token, byte_fallback) are ignored; byte-level BPE over all 256 bytes has nothing unknown.
func Parse(tokenizerJSON []byte) (*Tokenizer, error) {
	if !utf8.Valid(tokenizerJSON) {
		return nil, refuse("the file is not UTF-8")
	}
	s, err := read(string(tokenizerJSON))
	if err != nil {
		return nil, refuse("%s", err)
	}
	t := &Tokenizer{words: newWordCache()}
	steps := []func(*source) error{t.setSteps, t.setVocab, t.setAdded, t.setMerges}
	for _, step := range steps {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func refuse(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeCheckpoint, "tokenizer.json: "+format, args...)
}

// setSteps takes the steps around the BPE model.
func (t *Tokenizer) setSteps(s *source) error {
	if n := s.normalizer; n != nil {
		if n.Type != "NFC" {
			return refuse("normalizer %q is not supported, only NFC", n.Type)
		}
		t.nfc = true
	}
	if p := s.postProcessor; p != nil && p.Type != "ByteLevel" {
		return refuse("post-processor %q is not supported, only ByteLevel or none", p.Type)
	}
	if d := s.decoder; d == nil || d.Type != "ByteLevel" {
		return refuse("the decoder must be ByteLevel")
	}
	p := s.preTokenizer
	if p == nil || p.Type != "Sequence" || len(p.PreTokenizers) != 2 ||
		p.PreTokenizers[0].Type != "Split" || p.PreTokenizers[1].Type != "ByteLevel" {
		return refuse("the pre-tokenizer must be a sequence of Split and ByteLevel")
	}
	split, level := p.PreTokenizers[0], p.PreTokenizers[1]
	if split.Pattern.Regex == nil || split.Behavior != "Isolated" || split.Invert {
		return refuse("Split must isolate the matches of a regular expression")
	}
	if level.AddPrefixSpace || level.UseRegex == nil || *level.UseRegex {
		return refuse("ByteLevel must have add_prefix_space and use_regex false")
	}
	switch regex := *split.Pattern.Regex; regex {
	case regexQwen35:
		t.classes = qwen35Classes()
	case regexQwen2:
		t.classes = qwen2Classes()
	default:
		return refuse("the regular expression %.300q is not supported", regex)
	}
	return nil
}

// setVocab takes the tokens of the BPE model.
func (t *Tokenizer) setVocab(s *source) error {
	m := &s.model
	switch {
	case m.kind != "BPE":
		return refuse("model type %q is not supported, only BPE", m.kind)
	case m.dropout != nil && *m.dropout != 0:
		return refuse("dropout %g is not supported", *m.dropout)
	case m.subwordPrefix != nil && *m.subwordPrefix != "", m.wordEnd != nil && *m.wordEnd != "":
		return refuse("continuing_subword_prefix and end_of_word_suffix are not supported")
	case m.ignoreMerges:
		return refuse("ignore_merges is not supported")
	}
	size, total := 0, 0
	for token, id := range m.vocab {
		if token == "" || id < 0 || id > maxID {
			return refuse("token %.100q has id %d, want text and an id of 0 to %d", token, id, maxID)
		}
		size, total = max(size, int(id)+1), total+len(token)
	}
	t.tokens = make([]string, size)
	var all strings.Builder // one block of memory for all tokens
	all.Grow(total)
	for token, id := range m.vocab {
		if t.tokens[id] != "" {
			return refuse("id %d has two tokens, one of them %.100q", id, token)
		}
		start := all.Len()
		unspell(&all, token)
		t.tokens[id] = all.String()[start:]
	}
	for b := range t.bytes {
		id, ok := m.vocab[string(spelling[b])]
		if !ok {
			return refuse("byte %#02x has no token", b)
		}
		t.bytes[b] = id
	}
	return nil
}

// setAdded takes the added tokens.
func (t *Tokenizer) setAdded(s *source) error {
	seen := make(map[string]bool, len(s.added))
	for _, a := range s.added {
		switch {
		case a.Content == "" || a.ID < 0 || a.ID > maxID:
			return refuse("added token %.100q has id %d, want text and an id of 0 to %d", a.Content, a.ID, maxID)
		case a.LStrip || a.RStrip || a.SingleWord:
			return refuse("added token %.100q has lstrip, rstrip or single_word, which are not supported", a.Content)
		case a.Normalized && !norm.NFC.IsNormalString(a.Content):
			// Others are matched before NFC too: this differs only where NFC changes the text around a match.
			return refuse("added token %.100q is matched after NFC but is not NFC itself", a.Content)
		}
		if id, ok := s.model.vocab[a.Content]; ok && id != a.ID {
			return refuse("added token %.100q has id %d but id %d in the vocabulary", a.Content, a.ID, id)
		} else if !ok && t.Has(a.ID) {
			return refuse("added token %.100q has id %d, which another token has", a.Content, a.ID)
		}
		if seen[a.Content] {
			return refuse("added token %.100q is there twice", a.Content)
		}
		seen[a.Content] = true
		if missing := int(a.ID) + 1 - len(t.tokens); missing > 0 {
			t.tokens = append(t.tokens, make([]string, missing)...)
		}
		t.tokens[a.ID] = strings.Clone(a.Content)
		t.added = append(t.added, protocol.AddedToken{ID: a.ID, Content: t.tokens[a.ID], Special: a.Special})
	}
	slices.SortFunc(t.added, func(a, b protocol.AddedToken) int { return cmp.Compare(a.ID, b.ID) })
	t.matcher = newMatcher(t.added)
	return nil
}

// setMerges takes the merge rules; a rule's rank is its place in the file.
func (t *Tokenizer) setMerges(s *source) error {
	vocab := s.model.vocab
	t.merges = make(mergeTable, len(s.model.merges))
	var whole []byte
	for rank, pair := range s.model.merges {
		whole = append(append(whole[:0], pair[0]...), pair[1]...)
		left, ok1 := vocab[pair[0]]
		right, ok2 := vocab[pair[1]]
		merged, ok3 := vocab[string(whole)]
		if !ok1 || !ok2 || !ok3 {
			return refuse("merge %d of %.100q and %.100q needs a token that is not in the vocabulary", rank, pair[0], pair[1])
		}
		t.merges.put(left, right, merge{rank: uint32(rank), id: merged})
	}
	return nil
}
