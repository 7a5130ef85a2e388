package kernels

import "math"

// ropeFine is the number of positions of the fine table: FINE in attention_prep.metal.
const ropeFine = 512

// RopeTables are what AttentionPrep turns queries and keys by, for the positions below `positions`: (cos, sin) of every
// pair of dims, as f32. coarse, [ceil(positions/512)][rotary/2][2], holds the multiples of 512, and fine,
// [512][rotary/2][2], what is added to them. Angles are taken in fp64, so far positions are as exact as near ones.
func RopeTables(rotary int, theta float64, positions int) (coarse, fine []float32) {
	rows := (positions + ropeFine - 1) / ropeFine
	return ropeTable(rotary, theta, rows, ropeFine), ropeTable(rotary, theta, ropeFine, 1)
}

func ropeTable(rotary int, theta float64, rows, step int) []float32 {
	table := make([]float32, 0, rows*rotary)
	for r := range rows {
		for i := range rotary / 2 {
			sin, cos := math.Sincos(float64(r*step) * math.Pow(theta, -2*float64(i)/float64(rotary)))
			table = append(table, float32(cos), float32(sin))
		}
	}
	return table
}
