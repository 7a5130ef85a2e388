package sample

import "math"

// Constants of exp. ln2High has nine bits, so that its product with an exponent is exact; the two parts add up to ln 2.
const (
	log2E   = float32(1.44269504)
	ln2High = float32(0.693359375)
	ln2Low  = float32(-2.12194440e-4)
	lowest  = float32(-87) // exp is a normal number down to here
)

// exp is e^x for x at most 0, and 0 below -87. The sampling kernel computes the same bits: every operation is rounded to
// fp32 (the conversions keep the compiler from fusing them) and none is a library's. It is within 1 unit in the last place.
//
// x = n ln 2 + r with |r| at most about ln 2 / 2, and e^r is its Taylor polynomial of degree 7.
func exp(x float32) float32 {
	if !(x >= lowest) {
		return 0
	}
	n := int32(float32(x*log2E) - 0.5) // rounds, x being at most 0
	r := float32(x - float32(float32(n)*ln2High))
	r = float32(r - float32(float32(n)*ln2Low))
	q := float32(1.0 / 5040)
	q = float32(q*r) + 1.0/720
	q = float32(q*r) + 1.0/120
	q = float32(q*r) + 1.0/24
	q = float32(q*r) + 1.0/6
	q = float32(q*r) + 0.5
	q = float32(float32(r*r)*q) + r
	return float32((1 + q) * math.Float32frombits(uint32(n+127)<<23))
}
