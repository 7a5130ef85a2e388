package kernels_test

import (
	"fmt"
	"testing"

	"lilypad/metal/kernels"
	"lilypad/metal/sim"
)

// TestExpertTiles35B: at the 35B shape, whatever the experts get, there are tiles enough for all rows, at most one for each
// expert more, and as few columns of tiles as rows of the matrix need, so weights are loaded once for each tile of rows.
func TestExpertTiles35B(t *testing.T) {
	const hidden, inner, experts, topK = 2048, 512, 256, 8
	device, err := sim.Open(sim.Options{Target: sim.Count})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	set := kernels.New(device)
	defer set.Close()
	buffer, err := device.NewBuffer(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	defer buffer.Close()
	f, at := kernels.Format{Bits: 4, Group: 64}, kernels.Ref{Buffer: buffer}
	e := kernels.Experts{Count: experts, GateUp: kernels.Matrix{Format: f, Rows: 2 * inner, Cols: hidden, Buffer: buffer},
		Down: kernels.Matrix{Format: f, Rows: hidden, Cols: inner, Buffer: buffer}, Stride: 2 << 20}
	for _, count := range []int{1, 2, 64, 512, 2048} {
		height := kernels.TileHeight(count, topK, experts)
		g := kernels.Grouped{Count: count, TopK: topK, Height: height, Tokens: at, Tiles: at}
		up, err := set.ExpertsUpRows(kernels.ExpertsUpRows{Experts: e, Grouped: g, X: at, Out: at.At(512 << 20)})
		if err != nil {
			t.Fatal(err)
		}
		defer up.Close()
		down, err := set.ExpertsDownRows(kernels.ExpertsDownRows{Experts: e, Grouped: g, X: at, Out: at.At(512 << 20), OutType: kernels.F32})
		if err != nil {
			t.Fatal(err)
		}
		defer down.Close()
		for name, loads := range loads35B(count*topK, count, experts) {
			need, used := 0, 0
			for _, n := range loads {
				need += (n + height - 1) / height
				if n > 0 {
					used++
				}
			}
			if n := up.Launch().Groups.Y; n < need || n > need+experts {
				t.Errorf("%d tokens, %s: %d tiles of %d rows for %d experts, want %d and at most %d more", count, name, n, height, used, need, experts)
			}
		}
		for name, x := range map[string][2]int{"up": {up.Launch().Groups.X, 2 * inner}, "down": {down.Launch().Groups.X, hidden}} {
			if n := x[1] / x[0]; n*x[0] != x[1] || n != 64 && n != 128 {
				t.Errorf("%d tokens, %s: %d columns of tiles for %d rows of the matrix", count, name, x[0], x[1])
			}
		}
		if u, d := up.Launch().Groups.Y, down.Launch().Groups.Y; u != d {
			t.Errorf("%d tokens: %d tiles going up and %d going down", count, u, d)
		}
	}
}

// loads35B are ways to share pairs among experts, of which each takes at most the tokens.
func loads35B(pairs, tokens, experts int) map[string][]int {
	even, few, one := make([]int, experts), make([]int, experts), make([]int, experts)
	for i := range pairs {
		even[i%experts]++
		few[i/tokens]++
	}
	one[7] = tokens
	for i := range pairs - tokens {
		one[8+i%(experts-8)]++
	}
	return map[string][]int{"evenly": even, "as few as can be": few, "one takes all": one}
}

// TestExpertRowsEmpty: tiles without rows leave at once.
func TestExpertRowsEmpty(t *testing.T) {
	device, set := newSet(t, sim.Options{Check: true})
	for _, height := range []int{16, 32, 64} {
		t.Run(fmt.Sprint(height), func(t *testing.T) {
			a := newArena(t, device, 2<<20, 34)
			e, _, _ := a.Experts(kernels.Format{Bits: 4, Group: 32}, 3, 64, 64)
			const count, topK = 4, 2
			tiles := make([]uint32, 4*kernels.TileCount(count, topK, e.Count, height))
			g := kernels.Grouped{Count: count, TopK: topK, Height: height, Tokens: a.PutUints(make([]uint32, count*topK)...), Tiles: a.PutUints(tiles...)}
			up := kernels.ExpertsUpRows{Experts: e, Grouped: g, X: a.PutHalves(a.Normal(count*64, 0, 1)), Out: a.Room(2 * count * topK * 64)}
			op, err := set.ExpertsUpRows(up)
			runFixture(t, device, a, op, err)
			for i, x := range a.Halves(up.Out, count*topK*64) {
				if x == x {
					t.Fatalf("output %d is %g where no tile has rows", i, x)
				}
			}
		})
	}
}
