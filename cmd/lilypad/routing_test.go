package main

import (
	"math"
	"testing"
)

func TestBalance(t *testing.T) {
	for _, c := range []struct {
		name       string
		loads      []int64
		used, at   int
		peak, even float64
	}{
		{"nothing", []int64{0, 0}, 0, 0, 0, 0},
		{"all alike", []int64{5, 5, 5, 5}, 4, 0, 1, 1},
		{"one takes all", []int64{0, 0, 8, 0}, 1, 2, 4, 0.25},
		{"half of them", []int64{6, 0, 6, 0}, 2, 0, 2, 0.5},
	} {
		b := balanceOf(3, c.loads)
		if b.Layer != 3 || b.Experts != len(c.loads) || b.Used != c.used || b.Busiest != c.at ||
			math.Abs(b.Peak-c.peak) > 1e-12 || math.Abs(b.Even-c.even) > 1e-12 {
			t.Errorf("%s: %+v, want %d used, number %d the busiest with %v of the mean, even %v", c.name, b, c.used, c.at, c.peak, c.even)
		}
	}
}
