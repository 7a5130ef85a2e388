package kernels_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
)

// bench is a device, a set of kernels, and inputs.
type bench struct {
	*fixture.Arena
	t      testing.TB
	device *metal.Device
	set    *kernels.Set
}

func newBench(t testing.TB, bytes int64) *bench {
	t.Helper()
	d := openChecked(t)
	a, err := fixture.New(d, bytes, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{a, t, d, kernels.New(d)}
	t.Cleanup(func() { b.set.Close(); a.Close() })
	return b
}

// run uploads, runs op and downloads.
func (b *bench) run(op *metal.Dispatch, err error) {
	b.t.Helper()
	if err == nil {
		defer op.Close()
		if err = b.Upload(); err == nil {
			if err = fixture.Run(b.device, op); err == nil {
				err = b.Download()
			}
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) vector(name string, got kernels.Ref, want []float32) {
	b.t.Helper()
	if err := fixture.CompareFloats(b.Vector(got, len(want)), want, 1e-5); err != nil {
		b.t.Errorf("%s: %v", name, err)
	}
}

func (b *bench) floats(name string, got kernels.Ref, want []float32) {
	b.t.Helper()
	if err := fixture.CompareFloats(b.Floats(got, len(want)), want, 1e-5); err != nil {
		b.t.Errorf("%s: %v", name, err)
	}
}

// norm stores sums of squares, and returns them as a norm and as its factor.
func (b *bench) norm(cols int) (*kernels.Norm, float32) {
	squares := b.Normal((cols+7)/8, 12, 2)
	const eps = 1e-6
	return &kernels.Norm{Squares: b.PutFloats(squares), Parts: len(squares), Eps: eps}, ref.InverseRMS(squares, cols, eps)
}

// formats are all types and widths, and all groups of one width: each is a pipeline, and those take seconds to compile.
func formats() []kernels.Format {
	return []kernels.Format{
		{Type: kernels.BF16}, {Type: kernels.F16}, {Type: kernels.F32},
		{Bits: 2, Group: 64}, {Bits: 3, Group: 128}, {Bits: 5, Group: 64}, {Bits: 6, Group: 32},
		{Bits: 4, Group: 32}, {Bits: 4, Group: 64}, {Bits: 4, Group: 128}, {Bits: 4, Group: 64, Type: kernels.F16},
		{Bits: 8, Group: 64}, {Bits: 8, Group: 128, Type: kernels.F32},
	}
}

// TestLinearFormats runs every format at sizes with few and with many units for each lane, and rows that leave a tile over.
func TestLinearFormats(t *testing.T) {
	for _, f := range formats() {
		t.Run(f.String(), func(t *testing.T) {
			b := newBench(t, 1<<20)
			for _, size := range [][2]int{{13, 128}, {5, 2176}} {
				m, twin := b.Matrix(f, size[0], size[1])
				x := b.Normal(size[1], 0, 1)
				l := kernels.Linear{W: m, X: b.PutVector(x), Out: b.Room(int64(4 * size[0]))}
				b.run(b.set.LinearBy(l, kernels.Spread{Rows: 2, Split: 2, Sets: 2}))
				b.floats(fmt.Sprint(size), l.Out, ref.Linear(twin, x, 1))
			}
		})
	}
}

// TestLinearTails runs plain matrices whose columns are no multiple of what a lane loads.
func TestLinearTails(t *testing.T) {
	b := newBench(t, 1<<20)
	for _, typ := range []kernels.Type{kernels.BF16, kernels.F16, kernels.F32} {
		for _, cols := range []int{1, 7, 8, 9, 255, 257, 500} {
			m, twin := b.Matrix(kernels.Format{Type: typ}, 3, cols)
			x := b.Normal(cols, 0, 1)
			l := kernels.Linear{W: m, X: b.PutVector(x), Out: b.Room(12)}
			b.run(b.set.Linear(l))
			b.floats(fmt.Sprint(typ, " ", cols), l.Out, ref.Linear(twin, x, 1))
		}
	}
}

// spreads are routes with every number of rows and splits, whose tiles keep the sums of a residual whole where eights says so.
func spreads(eights bool) []kernels.Spread {
	if eights {
		return []kernels.Spread{{Rows: 1, Split: 2, Sets: 8}, {Rows: 2, Split: 4, Sets: 4}, {Rows: 4, Split: 1, Sets: 4}, {Rows: 8, Split: 8, Sets: 1}}
	}
	return []kernels.Spread{{Rows: 1, Split: 4, Sets: 1}, {Rows: 2, Split: 8, Sets: 2}, {Rows: 4, Split: 1, Sets: 5}, {Rows: 8, Split: 2, Sets: 1}}
}

func TestLinearRoutes(t *testing.T) {
	b := newBench(t, 4<<20)
	const rows, cols = 44, 1088
	m, twin := b.Matrix(kernels.Format{Bits: 4, Group: 64}, rows, cols)
	x := b.Normal(cols, 0, 1)
	norm, factor := b.norm(cols)
	l := kernels.Linear{W: m, X: b.PutVector(x), Norm: norm}
	want := ref.Linear(twin, x, factor)
	for _, r := range spreads(false) {
		name := fmt.Sprintf("%+v", r)
		l := l
		l.Out = b.Room(4 * rows)
		b.run(b.set.LinearBy(l, r))
		b.floats(name, l.Out, want)
		if r.Rows > 1 {
			l.Out, l.SwiGLU = b.Room(kernels.VectorBytes(rows/2)), true
			b.run(b.set.LinearBy(l, r))
			b.vector(name+" SwiGLU", l.Out, ref.SwiGLU(want))
		}
	}
}

func TestLinearResidual(t *testing.T) {
	b := newBench(t, 4<<20)
	const rows, cols = 72, 320
	m, twin := b.Matrix(kernels.Format{Bits: 8, Group: 64}, rows, cols)
	x, gain := b.Normal(cols, 0, 1), b.Normal(rows, 1, 0.3)
	l := kernels.Linear{W: m, X: b.PutVector(x)}
	for _, r := range spreads(true) {
		h := b.Normal(rows, 0, 3)
		res := &kernels.Residual{H: b.PutFloats(h), Gain: b.PutFloats(gain), Gained: b.Room(kernels.VectorBytes(rows)), Squares: b.Room(rows / 2)}
		l.Residual = res
		b.run(b.set.LinearBy(l, r))
		for i, y := range ref.Linear(twin, x, 1) {
			h[i] += y
		}
		name := fmt.Sprintf("%+v", r)
		b.floats(name+" h", res.H, h)
		b.vector(name+" gained", res.Gained, ref.Gained(h, gain))
		b.floats(name+" squares", res.Squares, ref.Squares(h))
	}
}

// TestLinearChoices takes every choice that tuning may make for three of the ends; those of logits are few, and TestLinearBest's.
func TestLinearChoices(t *testing.T) {
	b := newBench(t, 4<<20)
	const rows, cols = 72, 1152
	m, twin := b.Matrix(kernels.Format{Bits: 4, Group: 64}, rows, cols)
	x, gain := b.Normal(cols, 0, 1), b.Normal(rows, 1, 0.3)
	y := ref.Linear(twin, x, 1)
	vector, h := b.PutVector(x), b.Normal(rows, 0, 3)
	sum := slices.Clone(h)
	for i := range y {
		sum[i] += y[i]
	}
	for _, c := range (kernels.Linear{W: m}).Choices() {
		l := kernels.Linear{W: m, X: vector, Out: b.Room(4 * rows)}
		b.set.Use(kernels.Table{l.Key(): c})
		b.run(b.set.Linear(l))
		b.floats(fmt.Sprintf("plain by %+v", c), l.Out, y)
		if b.set.Chosen(l) != c {
			t.Errorf("chose %+v, want %+v", b.set.Chosen(l), c)
		}
	}
	for _, c := range (kernels.Linear{W: m, Residual: &kernels.Residual{}}).Choices() {
		l := kernels.Linear{W: m, X: vector, Residual: &kernels.Residual{
			H: b.PutFloats(h), Gain: b.PutFloats(gain), Gained: b.Room(kernels.VectorBytes(rows)), Squares: b.Room(rows / 2)}}
		b.set.Use(kernels.Table{l.Key(): c})
		b.run(b.set.Linear(l))
		b.floats(fmt.Sprintf("residual by %+v", c), l.Residual.H, sum)
		b.floats(fmt.Sprintf("squares by %+v", c), l.Residual.Squares, ref.Squares(sum))
	}
	for _, c := range (kernels.Linear{W: m, SwiGLU: true}).Choices() {
		l := kernels.Linear{W: m, X: vector, SwiGLU: true, Out: b.Room(kernels.VectorBytes(rows / 2))}
		b.set.Use(kernels.Table{l.Key(): c})
		b.run(b.set.Linear(l))
		b.vector(fmt.Sprintf("swiglu by %+v", c), l.Out, ref.SwiGLU(y))
	}
	best := (kernels.Linear{W: m, Best: &kernels.Best{}}).Choices()
	if n := len(best); n == 0 || n > 20 {
		t.Errorf("%d choices for logits", n)
	}
	for _, c := range best {
		if c.Rows*c.Sets != kernels.BestRows {
			t.Errorf("%+v for logits: a partial is of %d rows", c, kernels.BestRows)
		}
	}
}

// TestLinearBest plants rows that are equal, infinite and not a number, and forbids some.
func TestLinearBest(t *testing.T) {
	const rows, cols, tile = 150, 64, 32
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	type row struct {
		id    int
		value float32 // of all its weights
	}
	tests := []struct {
		name   string
		rows   []row
		forbid []int
	}{
		{name: "as they come"},
		{name: "equal rows", rows: []row{{9, 5}, {30, 5}, {31, 5}, {32, 5}, {149, 5}}},
		{name: "the largest is forbidden", rows: []row{{40, 5}, {41, 4}}, forbid: []int{40}},
		{name: "infinities", rows: []row{{3, inf}, {7, inf}, {8, -inf}}},
		{name: "not a number", rows: []row{{60, nan}, {50, nan}, {52, inf}}},
		{name: "a forbidden NaN", rows: []row{{60, nan}}, forbid: []int{60}},
		{name: "a tile with nothing allowed", forbid: span(64, 96)},
		{name: "only minus infinity is allowed", rows: []row{{70, -inf}, {75, -inf}}, forbid: append(span(64, 70), append(span(71, 75), span(76, 96)...)...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 1<<20)
			m, _ := b.Matrix(kernels.Format{Type: kernels.F32}, rows, cols)
			for _, r := range tt.rows {
				b.FillRow(m, r.id, r.value)
			}
			x := make([]float32, cols)
			for i := range x {
				x[i] = 0.5
			}
			allowed := make([]uint32, (rows+31)/32)
			for i := range rows {
				allowed[i/32] |= 1 << (i % 32)
			}
			for _, id := range tt.forbid {
				allowed[id/32] &^= 1 << (id % 32)
			}
			norm, factor := b.norm(cols)
			parts := b.set.BestParts(rows)
			l := kernels.Linear{W: m, X: b.PutVector(x), Norm: norm, Out: b.Room(4 * rows),
				Best: &kernels.Best{Partials: b.Room(int64(8 * parts)), Allowed: b.PutUints(allowed...)}}
			want := ref.Linear(b.Decode(m), x, factor)
			for _, r := range []kernels.Spread{{Rows: 4, Split: 2, Sets: tile / 4}, {Rows: 8, Split: 1, Sets: tile / 8, Tiles: 4}} {
				b.run(b.set.LinearBy(l, r))
				b.floats("logits", l.Out, want)
				words := b.Uints(l.Best.Partials, 2*parts)
				for i, w := range ref.Best(b.Floats(l.Out, rows), allowed, tile) {
					g := ref.Partial{Logit: math.Float32frombits(words[2*i]), ID: words[2*i+1]}
					if g.ID != w.ID || g.Logit != w.Logit && (g.Logit == g.Logit || w.Logit == w.Logit) {
						t.Errorf("tile %d: %+v, want %+v", i, g, w)
					}
				}
			}
		})
	}
}

// span is from..to-1.
func span(from, to int) []int {
	var s []int
	for ; from < to; from++ {
		s = append(s, from)
	}
	return s
}

func TestChooseRoute(t *testing.T) {
	residual, best := kernels.Linear{Residual: &kernels.Residual{}}, kernels.Linear{Best: &kernels.Best{}}
	tests := []struct {
		name               string
		rows, units, cores int
		l                  kernels.Linear
		want               kernels.Spread
	}{
		{"GDN projections", 12352, 64, 40, kernels.Linear{}, kernels.Spread{Rows: 4, Split: 1, Sets: 4, Tiles: 1}},
		{"out projection", 2048, 128, 40, residual, kernels.Spread{Rows: 4, Split: 4, Sets: 2, Tiles: 1}},
		{"router", 257, 64, 40, kernels.Linear{}, kernels.Spread{Rows: 1, Split: 2, Sets: 2, Tiles: 1}},
		{"shared gate and up", 1024, 64, 40, kernels.Linear{SwiGLU: true}, kernels.Spread{Rows: 2, Split: 2, Sets: 2, Tiles: 1}},
		{"head", 248320, 64, 40, best, kernels.Spread{Rows: 4, Split: 1, Sets: 8, Tiles: 4}},
		{"GDN projections of a GPU with many cores", 12352, 64, 132, kernels.Linear{}, kernels.Spread{Rows: 8, Split: 1, Sets: 4, Tiles: 1}},
		{"head of a GPU with many cores", 248320, 64, 132, best, kernels.Spread{Rows: 8, Split: 1, Sets: 4, Tiles: 4}},
		{"out projection of a GPU with many cores", 2048, 128, 132, residual, kernels.Spread{Rows: 4, Split: 4, Sets: 2, Tiles: 1}},
		{"out projection of a small GPU", 2048, 128, 8, residual, kernels.Spread{Rows: 4, Split: 1, Sets: 4, Tiles: 1}},
		{"one unit", 64, 1, 40, residual, kernels.Spread{Rows: 1, Split: 1, Sets: 8, Tiles: 1}},
		{"a small head", 64, 8, 40, best, kernels.Spread{Rows: 4, Split: 1, Sets: 8, Tiles: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := kernels.ChooseRoute(tt.rows, tt.units, tt.cores, tt.l); got != tt.want {
				t.Errorf("route %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestLinearRefuses(t *testing.T) {
	b := newBench(t, 1<<20)
	m, _ := b.Matrix(kernels.Format{Bits: 4, Group: 64}, 6, 128)
	odd := m
	odd.Rows = 5
	x, out := b.Room(256), b.Room(64)
	norm := &kernels.Norm{Squares: b.Room(64), Parts: 16}
	tests := []struct {
		name string
		l    kernels.Linear
	}{
		{"a vector between 16-byte words", kernels.Linear{W: m, X: x.At(4), Out: out}},
		{"SwiGLU of odd rows", kernels.Linear{W: odd, X: x, Out: out, SwiGLU: true}},
		{"a residual of 6 rows", kernels.Linear{W: m, X: x, Residual: &kernels.Residual{}}},
		{"best without norm", kernels.Linear{W: m, X: x, Out: out, Best: &kernels.Best{}}},
		{"best with SwiGLU", kernels.Linear{W: m, X: x, Out: out, Norm: norm, SwiGLU: true, Best: &kernels.Best{}}},
		{"no matrix", kernels.Linear{X: x, Out: out}},
		{"7 bits", kernels.Linear{W: kernels.Matrix{Format: kernels.Format{Bits: 7, Group: 64}, Rows: 1, Cols: 64, Buffer: m.Buffer}, X: x, Out: out}},
		{"half a group", kernels.Linear{W: kernels.Matrix{Format: m.Format, Rows: 1, Cols: 96, Buffer: m.Buffer}, X: x, Out: out}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d, err := b.set.Linear(tt.l); err == nil {
				d.Close()
				t.Error("accepted")
			}
		})
	}
}
