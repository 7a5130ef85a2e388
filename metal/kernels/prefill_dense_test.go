package kernels_test

import (
	"fmt"
	"slices"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
)

// denseFormats are all widths, group sizes and types that occur.
var denseFormats = []kernels.Format{
	{Bits: 4, Group: 64}, {Bits: 8, Group: 64}, {Bits: 2, Group: 32}, {Bits: 3, Group: 32, Type: kernels.F16}, {Bits: 5, Group: 32},
	{Bits: 6, Group: 32, Type: kernels.F32}, {Bits: 4, Group: 32, Type: kernels.F32}, {}, {Type: kernels.F16}, {Type: kernels.F32},
}

// denseCase is a LinearRows by tiles of height rows, 0 for the route's own.
type denseCase struct {
	format            kernels.Format
	rows, cols, count int
	height, outputs   int
	exact, floats     bool // of fp32 numbers; to fp32 numbers
	swiglu, residual  bool
}

func TestLinearRowsFormats(t *testing.T) {
	device, set := newSet(t, exact)
	for _, f := range denseFormats {
		for _, exactly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, exact %v", f, exactly), func(t *testing.T) {
				cols := 160 // a tile and a half of inputs
				if f.Group == 64 {
					cols = 192
				}
				runLinearRows(t, device, set, denseCase{format: f, rows: 72, cols: cols, count: 19, exact: exactly, floats: true})
			})
		}
	}
}

// TestLinearRowsTails has counts on both sides of every tile height, and every end.
func TestLinearRowsTails(t *testing.T) {
	device, set := newSet(t, exact)
	f := kernels.Format{Bits: 4, Group: 32}
	for _, count := range []int{1, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130} {
		for name, c := range map[string]denseCase{
			"wide":        {rows: 196, cols: 96, floats: true, height: 64, outputs: 128},
			"wide swiglu": {rows: 2 * 68, cols: 96, swiglu: true, height: 64, outputs: 128},
			"f16":         {rows: 64, cols: 64},
			"odd":         {rows: 67, cols: 96, floats: true},
			"odd f16":     {rows: 35, cols: 32},
			"swiglu":      {rows: 2 * 44, cols: 128, swiglu: true},
			"residual":    {rows: 136, cols: 64, floats: true, residual: true},
			"exact":       {rows: 17, cols: 64, exact: true, floats: true},
		} {
			t.Run(fmt.Sprintf("%s of %d", name, count), func(t *testing.T) {
				c.format, c.count = f, count
				runLinearRows(t, device, set, c)
			})
		}
	}
}

var denseTiles = [][2]int{{16, 64}, {32, 64}, {64, 64}, {64, 128}}

// TestLinearRowsAlone: the bits of an output depend neither on the tile's height nor on the rows around it.
func TestLinearRowsAlone(t *testing.T) {
	device, set := newSet(t, exact)
	c := denseCase{format: kernels.Format{Bits: 4, Group: 64}, rows: 136, cols: 192, count: 101, floats: true, height: 64, outputs: 64}
	whole := runLinearRows(t, device, set, c)
	for _, tile := range denseTiles {
		c.height, c.outputs = tile[0], tile[1]
		if other := runLinearRows(t, device, set, c); !slices.Equal(whole, other) {
			t.Errorf("tiles of %v give other bits than tiles of 64x64", tile)
		}
	}
	c.count = 3 // the same first rows: the fixture draws the matrix, then the vectors
	if few := runLinearRows(t, device, set, c); !slices.Equal(whole[:len(few)], few) {
		t.Errorf("3 rows have other bits alone than before 98 others")
	}
}

// TestLinearRowsStride has outputs apart, as projections of several formats leave them, and nothing else written.
func TestLinearRowsStride(t *testing.T) {
	device, set := newSet(t, exact)
	for _, c := range []struct{ rows, stride, first int }{{67, 80, 8}, {64, 71, 4}, {8, 8, 0}} {
		for _, kind := range []kernels.Type{kernels.F16, kernels.F32} {
			t.Run(fmt.Sprint(c, kind), func(t *testing.T) {
				const count, cols = 35, 96
				a := newArena(t, device, 1<<20, 22)
				w, twin := a.Matrix(kernels.Format{Bits: 4, Group: 32}, c.rows, cols)
				x := a.Normal(count*cols, 0, 1)
				l := kernels.LinearRows{W: w, X: a.PutHalves(x), XType: kernels.F16, Count: count, OutType: kind, Stride: c.stride}
				want := a.Normal(count*c.stride, 0, 1)
				put, got, first := a.PutFloats, a.Floats, int64(kind.Bytes()*c.first)
				if kind == kernels.F16 {
					put, got, first = a.PutHalves, a.Halves, 2*first // at a multiple of 16 bytes
				}
				all := put(want)
				l.Out = all.At(first)
				at := int(first) / kind.Bytes()
				for i, y := range ref.LinearRows(twin.Rounded(), x) {
					if place := at + i/c.rows*c.stride + i%c.rows; place < len(want) {
						want[place] = y
					}
				}
				l.Count = (len(want) - at) / c.stride // the last row may not fit behind what comes first
				op, err := set.LinearRows(l)
				runFixture(t, device, a, op, err)
				want = want[:at+(l.Count-1)*c.stride+c.rows]
				if err := fixture.CompareHalves(got(all, len(want)), want, 1, 1e-2); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// runLinearRows compares c with its twin and returns what came out.
func runLinearRows(t *testing.T, device *metal.Device, set *kernels.Set, c denseCase) []float32 {
	t.Helper()
	a := newArena(t, device, 2<<20, 21)
	w, twin := a.Matrix(c.format, c.rows, c.cols)
	x := a.Normal(c.count*c.cols, 0, 1)
	l := kernels.LinearRows{W: w, XType: kernels.F16, Count: c.count, OutType: kernels.F16, SwiGLU: c.swiglu, Residual: c.residual}
	if c.exact {
		l.X, l.XType = a.PutFloats(x), kernels.F32
	} else {
		l.X, twin = a.PutHalves(x), twin.Rounded()
	}
	if c.floats {
		l.OutType = kernels.F32
	}
	want := ref.LinearRows(twin, x)
	switch {
	case c.residual:
		before := a.Normal(len(want), 0, 2)
		l.Out = a.PutFloats(before)
		for i := range want {
			want[i] += before[i]
		}
	case c.swiglu:
		want = ref.SwiGLURows(want, c.rows)
		l.Out = a.Room(int64(2 * len(want)))
	default:
		l.Out = a.Room(int64(l.OutType.Bytes() * len(want)))
	}
	prepare := set.LinearRows
	if c.height != 0 {
		prepare = func(l kernels.LinearRows) (*metal.Dispatch, error) { return set.LinearRowsBy(l, c.height, c.outputs) }
	}
	op, err := prepare(l)
	runFixture(t, device, a, op, err)
	if !c.floats {
		got := a.Halves(l.Out, len(want))
		if err := fixture.CompareHalves(got, want, 1, 1e-2); err != nil {
			t.Error(err)
		}
		return got
	}
	got := a.Floats(l.Out, len(want))
	if err := fixture.CompareFloats(got, want, 1e-5); err != nil {
		t.Error(err)
	}
	return got
}
