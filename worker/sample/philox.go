package sample

import "math/bits"

// Multipliers and key increments of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
const (
	philoxM0, philoxM1 = 0xD2511F53, 0xCD9E8D57
	philoxW0, philoxW1 = 0x9E3779B9, 0xBB67AE85
	philoxRounds       = 10
)

// philox is Philox4x32-10: a bijection of the counter for each key, so a random number needs no generator state.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range philoxRounds {
		hi0, lo0 := bits.Mul32(philoxM0, counter[0])
		hi1, lo1 := bits.Mul32(philoxM1, counter[2])
		counter = [4]uint32{hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0}
		key[0] += philoxW0
		key[1] += philoxW1
	}
	return counter
}

// uniform returns the number in [0, 1) that belongs to one draw: key = the seed's 64 bits (low, high), counter =
// (position low, high, choice, draw), u = (x >> 8) * 2^-24 of the first output word.
func uniform(seed uint64, position int, choice, draw uint32) float32 {
	p := uint64(position)
	x := philox([4]uint32{uint32(p), uint32(p >> 32), choice, draw}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	return float32(x[0]>>8) * (1.0 / (1 << 24))
}
