package fake

import (
	"encoding/binary"
	"hash/fnv"

	"lilypad/protocol"
)

// Next is the model: the token after tokens, of which the first prompt ones were the prompt. It must be a pure function.
type Next func(tokens []int32, prompt int, s protocol.Sampling) int32

// Hash depends on every token before, so that a replay from wrong tokens shows. It gives lower-case letters, spaces and
// now and then the first or the second byte of a two-byte letter, and never stops by itself. With a temperature it
// also depends on seed and choice.
func Hash(tokens []int32, _ int, s protocol.Sampling) int32 {
	h := fnv.New64a()
	var b [4]byte
	for _, t := range tokens {
		binary.LittleEndian.PutUint32(b[:], uint32(t))
		h.Write(b[:])
	}
	if s.Temperature > 0 {
		binary.Write(h, binary.LittleEndian, s.Seed)
		binary.Write(h, binary.LittleEndian, s.Choice)
	}
	const letters = "abcdefghijklmnopqrstuvwxyz    "
	if n := len(tokens); n > 0 && tokens[n-1] == 0xC3 {
		return 0xA0 + int32(h.Sum64()%16) // à to ï
	}
	x := h.Sum64() % (uint64(len(letters)) + 4)
	if x >= uint64(len(letters)) {
		return 0xC3
	}
	return int32(letters[x])
}

// Script answers every prompt with text and then stops.
func Script(text string) Next {
	ids := Tokenize(protocol.Span{Text: text})
	return func(tokens []int32, prompt int, _ protocol.Sampling) int32 {
		if i := len(tokens) - prompt; i < len(ids) {
			return ids[i]
		}
		return ImEnd
	}
}
