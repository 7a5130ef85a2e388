package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
)

// chunkFixture is a chunk of tokens behind a cache: its projections, and what both dispatches of its attention need.
type chunkFixture struct {
	*cacheFixture
	prep               kernels.PrefillAttentionPrep
	attend             kernels.PrefillAttention
	proj, qGain, kGain []float32
	rows, position     int
	theta              float64
}

// putNumbers stores v as bf16, rounded in place, or as f32.
func putNumbers(a *fixture.Arena, kind kernels.Type, v []float32) kernels.Ref {
	if kind == kernels.F32 {
		return a.PutFloats(v)
	}
	return a.PutBfloats(v)
}

// newChunk fills the cache before position with numbers of deviation 1, and the projections of rows tokens.
func newChunk(a *fixture.Arena, s kernels.AttentionShape, position, rows int, kind kernels.Type) *chunkFixture {
	f := &chunkFixture{cacheFixture: newCache(a, s, position+rows, 1), rows: rows, position: position, theta: 1e7}
	n, keys := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	q, k := 1, 1+2*n+3
	width := k + 2*keys + 2
	f.proj = a.Normal(rows*width, 0, 2)
	proj := putNumbers(a, kind, f.proj)
	f.qGain, f.kGain = a.Normal(s.HeadDim, 1, 0.2), a.Normal(s.HeadDim, 1, 0.2)
	coarse, fine := kernels.RopeTables(s.Rotary, f.theta, position+rows)
	step := a.PutUints(1, uint32(position), 0, 0, tableStart, 0, 0, 0)
	f.prep = kernels.PrefillAttentionPrep{AttentionShape: f.shape, Rows: rows, Proj: proj, ProjType: kind, Width: width, Q: q, K: k, V: k + keys,
		QGain: a.PutFloats(f.qGain), KGain: a.PutFloats(f.kGain), Eps: 1e-6, Coarse: a.PutFloats(coarse), Fine: a.PutFloats(fine),
		Positions: position + rows, KV: f.kv, Table: f.table, Step: step, MaxLength: position + rows, Out: a.Room(s.PrefillQueriesBytes(rows))}
	f.attend = kernels.PrefillAttention{AttentionShape: f.shape, Rows: rows, Queries: f.prep.Out, Proj: proj, ProjType: kind, Width: width, Q: q,
		KV: f.kv, Table: f.table, Step: step, MaxLength: position + rows, Out: a.Room(int64(2 * rows * n))}
	return f
}

// run prepares and attends in one pass.
func (f *chunkFixture) run(t *testing.T, device *metal.Device, set *kernels.Set, a *fixture.Arena) {
	t.Helper()
	prep, err := set.PrefillAttentionPrep(f.prep)
	if err != nil {
		t.Fatal(err)
	}
	defer prep.Close()
	attend, err := set.PrefillAttention(f.attend)
	if err != nil {
		t.Fatal(err)
	}
	defer attend.Close()
	if err := a.Upload(); err != nil {
		t.Fatal(err)
	}
	if err := fixture.Run(device, prep, nil, attend); err != nil {
		t.Fatal(err)
	}
	if err := a.Download(); err != nil {
		t.Fatal(err)
	}
}

// query is what the arena holds of the prepared query of a head of token t: of its tiles, a row of each.
func (f *chunkFixture) query(a *fixture.Arena, t, head int) []float32 {
	s := f.shape
	per := s.Heads / s.KVHeads
	group := s.PrefillQueriesBytes(f.rows) / int64(s.KVHeads)
	row := t*per + head%per
	q := make([]float32, 0, s.HeadDim)
	for tile := range s.HeadDim / 8 {
		at := int64(head/per)*group + int64(2*((row/8*(s.HeadDim/8)+tile)*64+row%8*8))
		q = append(q, a.Bfloats(f.prep.Out.At(at), 8)...)
	}
	return q
}

// checkPrep compares queries, keys and values that the arena holds with the twin's.
func (f *chunkFixture) checkPrep(a *fixture.Arena) error {
	s := f.shape
	for t := range f.rows {
		row := f.proj[t*f.prep.Width:][:f.prep.Width]
		head := func(at int, gain []float32, scale float64) []float32 {
			return ref.Head(slices.Clone(row[at:at+s.HeadDim]), gain, f.prep.Eps, s.Rotary, f.theta, f.position+t, scale)
		}
		for h := range s.Heads {
			want := head(f.prep.Q+2*h*s.HeadDim, f.qGain, 1/math.Sqrt(float64(s.HeadDim)))
			if err := fixture.CompareBfloats(f.query(a, t, h), want, 2, 1e-4); err != nil {
				return fmt.Errorf("token %d, query head %d: %w", t, h, err)
			}
		}
		for h := range s.KVHeads {
			got := a.Bfloats(f.row(f.position+t, 0, h), s.HeadDim)
			if err := fixture.CompareBfloats(got, head(f.prep.K+h*s.HeadDim, f.kGain, 1), 2, 1e-3); err != nil {
				return fmt.Errorf("token %d, key head %d: %w", t, h, err)
			}
			want := row[f.prep.V+h*s.HeadDim:][:s.HeadDim]
			if err := fixture.CompareBfloats(a.Bfloats(f.row(f.position+t, 1, h), s.HeadDim), want, 0, 0); err != nil {
				return fmt.Errorf("token %d, value head %d: %w", t, h, err)
			}
		}
	}
	return nil
}

// weighted is the magnitude whose step as a half, 2^-9, rounding the weights to bf16 may move an output by, 2^-9 of what is
// weighted: values have a mean magnitude of 1.6, and gates are below 1.
const weighted = 2

// checkAttention compares the outputs with those of the twin, fed the queries, keys and values that the arena holds.
func (f *chunkFixture) checkAttention(a *fixture.Arena) error {
	s := f.shape
	for h := range s.Heads {
		cached := func(kind int) func(int) []float32 {
			list := make([][]float32, f.position+f.rows)
			for t := range list {
				list[t] = a.Bfloats(f.row(t, kind, h/(s.Heads/s.KVHeads)), s.HeadDim)
			}
			return func(t int) []float32 { return list[t] }
		}
		gates := func(t int) []float32 {
			return f.proj[t*f.attend.Width+f.attend.Q+(2*h+1)*s.HeadDim:][:s.HeadDim]
		}
		want := ref.AttendChunk(f.rows, f.position, func(t int) []float32 { return f.query(a, t, h) }, gates, cached(0), cached(1))
		for t, w := range want {
			got := a.Halves(f.attend.Out.At(int64(2*(t*s.Heads+h)*s.HeadDim)), s.HeadDim)
			if err := fixture.CompareHalves(got, w, 2, weighted); err != nil {
				return fmt.Errorf("token %d, head %d: %w", t, h, err)
			}
		}
	}
	return nil
}

func TestPrefillAttention(t *testing.T) {
	for _, c := range []struct {
		name           string
		shape          kernels.AttentionShape
		position, rows int
		kind           kernels.Type
	}{
		{"35B, one token", shapeOf(16, 2, 256), 0, 1, kernels.BF16},
		{"35B, one token of many", shapeOf(16, 2, 256), 577, 1, kernels.F32},
		{"35B, two", shapeOf(8, 1, 256), 31, 2, kernels.BF16},
		{"35B, a tile of rows", shapeOf(8, 1, 256), 0, 8, kernels.BF16},
		{"35B, nine", shapeOf(8, 1, 256), 119, 9, kernels.F32},
		{"27B", shapeOf(12, 2, 256), 3, 63, kernels.BF16},
		{"four heads share", shapeOf(4, 1, 128), 64, 64, kernels.F32},
		{"demo", shapeOf(4, 2, 64), 0, 129, kernels.BF16},
		{"demo, later", shapeOf(4, 2, 64), 130, 65, kernels.F32},
		{"no sharing", shapeOf(3, 3, 32), 7, 65, kernels.BF16},
		{"three heads share, narrow", shapeOf(3, 1, 32), 33, 63, kernels.F32},
		{"32 heads share", shapeOf(32, 1, 64), 62, 3, kernels.BF16},
	} {
		t.Run(c.name, func(t *testing.T) {
			device, set, arena := newFixture(t, 32<<20, uint64(c.position)+1)
			f := newChunk(arena, c.shape, c.position, c.rows, c.kind)
			f.run(t, device, set, arena)
			if err := f.checkPrep(arena); err != nil {
				t.Error(err)
			}
			if err := f.checkAttention(arena); err != nil {
				t.Error(err)
			}
		})
	}
}

// Scores that rise from tile to tile by more than the margin, and such as are too large for exp: sums are scaled.
func TestPrefillAttentionRises(t *testing.T) {
	device, set, arena := newFixture(t, 8<<20, 3)
	f := newChunk(arena, shapeOf(2, 1, 64), 150, 40, kernels.BF16)
	for token := range 190 {
		key := arena.Bfloats(f.row(token, 0, 0), 64)
		scaleAll(key, 0.25+float32(token/32*token/32))
		putBfloats(arena, f.row(token, 0, 0), key)
	}
	f.run(t, device, set, arena)
	if err := f.checkAttention(arena); err != nil {
		t.Error(err)
	}
}

// A token's outputs have the same bits however its chunk was cut.
func TestPrefillAttentionCuts(t *testing.T) {
	const tokens = 70
	shape := shapeOf(4, 1, 64)
	run := func(cuts ...int) []byte {
		device, set, arena := newFixture(t, 8<<20, 5)
		f := newChunk(arena, shape, 40, tokens, kernels.BF16)
		steps := map[int]kernels.Ref{}
		for _, at := range cuts {
			steps[at] = arena.PutUints(1, uint32(40+at), 0, 0, tableStart, 0, 0, 0)
		}
		if err := arena.Upload(); err != nil {
			t.Fatal(err)
		}
		for i, at := range cuts {
			end := tokens
			if i+1 < len(cuts) {
				end = cuts[i+1]
			}
			prep, attend := f.prep, f.attend
			prep.Rows, attend.Rows = end-at, end-at
			prep.MaxLength, attend.MaxLength = 40+end, 40+end
			prep.Step, attend.Step = steps[at], steps[at]
			prep.Proj = prep.Proj.At(int64(2 * at * prep.Width))
			attend.Proj, attend.Out = prep.Proj, attend.Out.At(int64(2*at*shape.Heads*shape.HeadDim))
			a, err := set.PrefillAttentionPrep(prep)
			if err != nil {
				t.Fatal(err)
			}
			b, err := set.PrefillAttention(attend)
			if err != nil {
				t.Fatal(err)
			}
			if err := fixture.Run(device, a, nil, b); err != nil {
				t.Fatal(err)
			}
			a.Close()
			b.Close()
		}
		if err := arena.Download(); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(arena.Bytes(f.attend.Out, int64(2*tokens*shape.Heads*shape.HeadDim)))
	}
	whole := run(0)
	for _, cuts := range [][]int{{0, 1}, {0, 2, 3, 66}, {0, 63}, {0, 64, 65}} {
		if !bytes.Equal(run(cuts...), whole) {
			t.Errorf("cut at %v: other bits", cuts[1:])
		}
	}
}

func TestPrefillAttentionRefuses(t *testing.T) {
	_, set, arena := newFixture(t, 8<<20, 1)
	f := newChunk(arena, shapeOf(4, 2, 64), 0, 3, kernels.F32)
	for _, c := range []struct {
		edit func(*chunkFixture)
		want string
	}{
		{func(f *chunkFixture) { f.prep.Rows, f.attend.Rows = 0, 0 }, "a chunk of 0 tokens"},
		{func(f *chunkFixture) { f.prep.Rows, f.attend.Rows = 4097, 4097 }, "a chunk of 4097 tokens"},
		{func(f *chunkFixture) { f.prep.ProjType, f.attend.ProjType = kernels.F16, kernels.F16 }, "type 1"},
		{func(f *chunkFixture) { f.prep.Proj.Offset += 2; f.attend.Proj.Offset += 2 }, "want a multiple of 4"},
		{func(f *chunkFixture) { f.prep.MaxLength, f.attend.MaxLength = 2, 2 }, "2 tokens, with a chunk of 3"},
		{func(f *chunkFixture) { f.prep.Width, f.attend.Width = 100, 100 }, "not within 100"},
		{func(f *chunkFixture) { f.prep.HeadDim, f.attend.HeadDim = 80, 80 }, "heads of 80 dims"},
	} {
		g := *f
		c.edit(&g)
		_, prepErr := set.PrefillAttentionPrep(g.prep)
		_, attendErr := set.PrefillAttention(g.attend)
		for _, err := range []error{prepErr, attendErr} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		}
	}
	g := *f
	g.attend.KV.Offset += 8
	if _, err := set.PrefillAttention(g.attend); err == nil || !strings.Contains(err.Error(), "want multiples of 16") {
		t.Errorf("error %v for a cache at an odd place", err)
	}
}
