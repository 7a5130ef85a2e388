// Package tokenizer turns text into token ids and ids back into text, as Hugging Face's tokenizer.json of the Qwen family
// says: added tokens, NFC, pre-tokenizer, byte-level BPE (model-spec.md section 5).
// It must not import another package of ours than protocol: it knows nothing of models, files or templates.
package tokenizer

import "lilypad/protocol"

// Tokenizer is one parsed tokenizer.json. It does not change after Parse, so any number of goroutines may use it.
type Tokenizer struct {
	tokens  []string // raw bytes by id, added tokens included; "" where an id has no token
	added   []protocol.AddedToken
	matcher *matcher
	bytes   [256]int32 // id of each byte's own token
	merges  mergeTable
	classes *classTable
	words   *wordCache
	nfc     bool // the file asks for NFC
}

// Size returns one more than the largest id. There may be ids below it that have no token.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// Has reports whether id has a token. A sampler must never choose an id without one.
func (t *Tokenizer) Has(id int32) bool {
	return id >= 0 && int(id) < len(t.tokens) && t.tokens[id] != ""
}

// Added returns the added tokens by ascending id. The slice is shared: callers must not change it.
func (t *Tokenizer) Added() []protocol.AddedToken { return t.added }

// AppendToken appends the raw bytes of one token to dst: UTF-8 of an added token's content, for others the bytes that the
// byte-level alphabet spells, which may be a part of a character. An id without a token appends nothing.
func (t *Tokenizer) AppendToken(dst []byte, id int32) []byte {
	if !t.Has(id) {
		return dst
	}
	return append(dst, t.tokens[id]...)
}

// Decode returns the text of ids, special tokens included, with one U+FFFD for each maximal subpart of bytes that are no
// UTF-8.
func (t *Tokenizer) Decode(ids []int32) string {
	var raw []byte
	for _, id := range ids {
		raw = t.AppendToken(raw, id)
	}
	text, used := appendText(make([]byte, 0, len(raw)), raw)
	if used < len(raw) {
		text = append(text, replacement...)
	}
	return string(text)
}
