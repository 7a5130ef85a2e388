package tokenizer

import (
	"hash/maphash"
	"sync/atomic"
)

// cacheSlots bounds the cache: 16,384 words of at most maxShort bytes, about 4 MB when full of long ones.
const cacheSlots = 1 << 14

// wordCache remembers the ids of pieces. Each text has one slot, where the newest word wins; goroutines share it without
// a lock because a word never changes once it is stored.
type wordCache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[cachedWord]
}

type cachedWord struct {
	text string
	ids  []int32
}

func newWordCache() *wordCache { return &wordCache{seed: maphash.MakeSeed()} }

// get returns text's word or nil, and the slot to put it in.
func (c *wordCache) get(text string) (*cachedWord, *atomic.Pointer[cachedWord]) {
	slot := &c.slots[maphash.String(c.seed, text)%cacheSlots]
	if word := slot.Load(); word != nil && word.text == text {
		return word, slot
	}
	return nil, slot
}
