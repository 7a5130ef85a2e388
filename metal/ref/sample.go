package ref

import (
	"math"
	"math/bits"
	"slices"
)

// Sampling are the parameters of Sample; 0 switches a filter off.
type Sampling struct {
	Temperature float32 // 0 is greedy
	TopK        int
	TopP        float32 // 1 too keeps all
	MinP        float32
	Seed        uint64
	Choice      uint32
}

// Outcome says whether Sample could choose.
type Outcome int

// The outcomes of Sample.
const (
	Sampled       Outcome = iota
	NotANumber            // an allowed logit is not a number
	NothingToDraw         // no allowed logit is above minus infinity
)

// Sample is the rule in its plainest form: sort all allowed ids by logit descending and then id ascending, filter, add up
// weights in that order in fp32, and take the first whose sum is above u times the total. Position is the number of
// tokens before the sampled one.
func Sample(logits []float32, allowed func(id int) bool, p Sampling, position int) (uint32, Outcome) {
	var ids []uint32
	for id, l := range logits {
		if allowed(id) {
			if l != l {
				return 0, NotANumber
			}
			ids = append(ids, uint32(id))
		}
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return descending(logits[a], logits[b]) })
	if len(ids) == 0 || math.IsInf(float64(logits[ids[0]]), -1) {
		return 0, NothingToDraw
	}
	if p.Temperature <= 0 || p.TopK == 1 {
		return ids[0], Sampled
	}
	if p.TopK > 0 && p.TopK < len(ids) {
		ids = ids[:p.TopK]
	}
	sums := sumWeights(logits, ids, p)
	limit := Uniform(p.Seed, position, p.Choice) * sums[len(sums)-1]
	for i, sum := range sums {
		if sum > limit {
			return ids[i], Sampled
		}
	}
	return ids[len(sums)-1], Sampled
}

// sumWeights are the cumulative weights of the ids that top-p and min-p keep. ids are sorted.
func sumWeights(logits []float32, ids []uint32, p Sampling) []float32 {
	var weights, sums []float32
	sum := float32(0)
	for _, id := range ids {
		x := float32(0)
		if top := logits[ids[0]]; logits[id] != top {
			x = (logits[id] - top) / p.Temperature
		}
		weights = append(weights, Exp(x))
		sum += Exp(x)
		sums = append(sums, sum)
	}
	for i := 1; i < len(sums); i++ {
		if p.TopP > 0 && p.TopP < 1 && sums[i-1] >= p.TopP*sum || weights[i] < p.MinP {
			return sums[:i]
		}
	}
	return sums
}

// Exp is e^x for x at most 0, and 0 below -87: the bits of the sampling kernel's, by the same operations, each rounded to
// fp32 (the conversions keep the compiler from fusing them).
func Exp(x float32) float32 {
	if !(x >= -87) {
		return 0
	}
	n := int32(float32(x*1.44269504) - 0.5)
	r := float32(x - float32(float32(n)*0.693359375))
	r = float32(r - float32(float32(n)*-2.12194440e-4))
	q := float32(1.0 / 5040)
	for _, c := range [...]float32{1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5} {
		q = float32(q*r) + c
	}
	q = float32(float32(r*r)*q) + r
	return float32((1 + q) * math.Float32frombits(uint32(n+127)<<23))
}

// Uniform is the number in [0, 1) that Philox4x32-10 gives for key seed and counter (position, choice, draw 0).
func Uniform(seed uint64, position int, choice uint32) float32 {
	c := [4]uint32{uint32(position), uint32(uint64(position) >> 32), choice, 0}
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, c[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ key[0], lo1, hi0 ^ c[3] ^ key[1], lo0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return float32(c[0]>>8) * (1.0 / (1 << 24))
}
