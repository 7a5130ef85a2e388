package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
)

// What identity reads of each shard: evenly spaced blocks, the first and the last among them.
const (
	sampledBlocks = 64
	blockBytes    = 64 << 10
)

// identity is the checkpoint id: SHA-256 over config.json, tokenizer.json and, of each shard in name order, its header, its
// size and 64 sampled blocks of 64 KiB. It never reads a whole checkpoint. Weights quantised at load are others than
// those stored, so the width goes in too.
func identity(configJSON, tokenizer []byte, shards []*shard, quantized int) string {
	h := sha256.New()
	part(h, configJSON)
	part(h, tokenizer)
	for _, s := range shards {
		n := binary.LittleEndian.Uint64(s.data) // checked by parseHeader
		part(h, s.data[:8+n])
		binary.Write(h, binary.LittleEndian, uint64(len(s.data)))
		if len(s.data) <= sampledBlocks*blockBytes {
			h.Write(s.data)
			continue
		}
		step := (len(s.data) - blockBytes) / (sampledBlocks - 1)
		for i := range sampledBlocks - 1 {
			h.Write(s.data[i*step:][:blockBytes])
		}
		h.Write(s.data[len(s.data)-blockBytes:])
	}
	if quantized != 0 {
		part(h, fmt.Appendf(nil, "quantized at load: %d bits, groups of %d", quantized, loadGroup))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// part hashes a piece with its length, so that bytes can't move between neighbours unnoticed.
func part(h hash.Hash, data []byte) {
	binary.Write(h, binary.LittleEndian, uint64(len(data)))
	h.Write(data)
}
