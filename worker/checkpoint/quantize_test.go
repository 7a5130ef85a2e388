package checkpoint

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// storedMatrix makes an unquantised matrix.
func storedMatrix(t DType, cols int, v []float32) *Matrix {
	m := &Matrix{Rows: len(v) / cols, Cols: cols, Type: t, Data: make([]byte, len(v)*t.Size())}
	for i, x := range v {
		encode(t, m.Data, i, x)
	}
	return m
}

func rowOf(m *Matrix, r int) []float32 {
	v := make([]float32, m.Cols)
	m.Row(r, v)
	return v
}

// fill repeats a pattern over a group of 64.
func fill(pattern ...float32) []float32 {
	v := make([]float32, 64)
	for i := range v {
		v[i] = pattern[i%len(pattern)]
	}
	return v
}

// Groups whose scale, bias and codes can be worked out by hand from the rule (model specification, section 4.2).
func TestQuantizedGroups(t *testing.T) {
	for _, c := range []struct {
		name        string
		bits        int
		values      []float32
		scale, bias float32
		codes       []uint32 // of the pattern
	}{
		// Range 15 in 15 steps; the larger edge is 0..15's top, so codes count down from it: w = -1*q + 15.
		{"positive edge", 4, fill(0, 1, 14, 15), -1, 15, []uint32{15, 14, 1, 0}},
		{"negative edge", 4, fill(0, -1, -14, -15), 1, -15, []uint32{15, 14, 1, 0}},
		// Codes of 0.5, 1.5 and 2.5 below the top: halves go away from zero, to 1, 2 and 3 (to even would give 0, 2, 2).
		{"halves", 4, fill(15, 14.5, 13.5, 12.5, 0), -1, 15, []uint32{0, 1, 2, 3, 15}},
		// All negative: the maximum counts as 0, so the scale is 30/15 = 2 and not (30-15)/15 = 1; -16 is 7 steps up from -30.
		{"all negative", 4, fill(-30, -16, -15), 2, -30, []uint32{0, 7, 8}},
		// All positive: the minimum is the real one. (15-7.5)/15 = 0.5, and 15/-0.5 = -30 is whole.
		{"all positive", 4, fill(7.5, 15, 8), -0.5, 15, []uint32{15, 0, 14}},
		// 0 stays representable: the scale 8/7 is stretched so that edge/scale is whole: round(5/(8/7)) = round(4.375) = 4, 5/4.
		{"zero is a code", 3, fill(-3, 0, 5), -1.25, 5, []uint32{6, 4, 0}},
		{"all zero", 4, fill(0), -1e-7, 0, []uint32{0}},
		{"8 bits", 8, fill(-255, 0, -128), 1, -255, []uint32{0, 255, 127}},
		{"2 bits", 2, fill(3, 2, 1, 0), -1, 3, []uint32{0, 1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := quantized(storedMatrix(F32, 64, c.values), c.bits, 64)
			var scale, bias [1]float32
			decode(F32, q.Scales, scale[:])
			decode(F32, q.Biases, bias[:])
			if scale[0] != c.scale || bias[0] != c.bias {
				t.Errorf("scale %g and bias %g, want %g and %g", scale[0], bias[0], c.scale, c.bias)
			}
			for i, w := range bigCodes(q.Data, c.bits, 64) {
				if want := c.codes[i%len(c.codes)]; w != want {
					t.Fatalf("code %d is %d, want %d", i, w, want)
				}
			}
		})
	}
}

// bigCodes reads a row of codes as one big number, independently of unpack.
func bigCodes(row []byte, bits, n int) []uint32 {
	row = slices.Clone(row)
	slices.Reverse(row)
	stream := new(big.Int).SetBytes(row)
	mask := big.NewInt(1<<bits - 1)
	codes := make([]uint32, n)
	for i := range codes {
		codes[i] = uint32(new(big.Int).And(new(big.Int).Rsh(stream, uint(i*bits)), mask).Uint64())
	}
	return codes
}

// Quantised weights are close to their source, and codes survive packing, at any width.
func TestQuantizedIsClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SampledFrom(bitWidths).Draw(t, "bits")
		group := rapid.SampledFrom(groupSizes).Draw(t, "group")
		v := rapid.SliceOfN(rapid.Float32Range(-100, 100), 2*group, 2*group).Draw(t, "values")
		m := storedMatrix(F32, group, v)
		q := quantized(m, bits, group)
		for r := range 2 {
			source, got := v[r*group:][:group], rowOf(&q, r)
			low, high := min(0, slices.Min(source)), max(0, slices.Max(source))
			// Half a step, plus what the stretch that makes 0 a code may cut off at the far end: at most half a step again
			// for each code, relative to the edge's own count of steps.
			step := max((high-low)/float32(int(1)<<bits-1), 1e-7)
			for i := range source {
				if d := abs(got[i] - source[i]); d > 1.01*maxStretch(bits)*step {
					t.Fatalf("weight %d of row %d is %g, want %g (step %g)", i, r, got[i], source[i], step)
				}
			}
		}
	})
}

// maxStretch bounds the error in steps: the edge is at least half the range, n/2 steps or more, and rounding its count q0 moves
// the step by at most 0.5/q0 of itself, over at most n steps.
func maxStretch(bits int) float32 {
	n := float32(int(1)<<bits - 1)
	q0 := float32(math.Floor(float64(n / 2)))
	return 0.5*(1+0.5/q0) + n*0.5/q0
}

// The rule in float64, step by step, against the fp32 code: scales and biases are the nearest numbers of the source's
// type, and codes come from the unrounded ones.
func TestQuantizedAgainstFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		t    DType
		ulp  float64 // largest relative distance to the nearest number of the type
		bits int
	}{{BF16, 0x1p-8, 4}, {F16, 0x1p-11, 4}, {F32, 0x1p-24, 4}, {BF16, 0x1p-8, 8}, {BF16, 0x1p-8, 3}, {F16, 0x1p-11, 6}} {
		shift := rng.NormFloat64()
		v := make([]float32, 64)
		for i := range v {
			v[i] = float32(rng.NormFloat64() + shift)
		}
		m := storedMatrix(c.t, 64, v)
		m.Row(0, v) // as rounded to the type
		low, high := math.Inf(1), 0.0
		for _, x := range v {
			low, high = min(low, float64(x)), max(high, float64(x))
		}
		n := float64(int(1)<<c.bits - 1)
		scale, edge := (high-low)/n, low
		if math.Abs(low) <= math.Abs(high) {
			scale, edge = -scale, high
		}
		scale = edge / math.Round(edge/scale)
		q := quantized(m, c.bits, 64)
		var got [2]float32
		decode(c.t, q.Scales, got[:1])
		decode(c.t, q.Biases, got[1:])
		for i, want := range []float64{scale, edge} {
			if math.Abs(float64(got[i])-want) > math.Abs(want)*(c.ulp+1e-6) {
				t.Errorf("%v, %d bits: scale and bias %g, want %g and %g", c.t, c.bits, got, scale, edge)
			}
		}
		for i, code := range bigCodes(q.Data, c.bits, 64) {
			exact := min(max((float64(v[i])-edge)/scale, 0), n)
			if math.Abs(float64(code)-exact) > 0.5+1e-4 {
				t.Errorf("%v, %d bits: code %d is %d, want %g rounded", c.t, c.bits, i, code, exact)
			}
		}
	}
}

// Options.Quantize turns every linear module into 4 bits in groups of 64, gates into 8, leaves vectors alone, and
// changes the id; modules that are affine already stay.
func TestQuantizeWhileLoading(t *testing.T) {
	plain := mustOpen(t, newBuild().fs(), Options{})
	for _, bits := range []int{4, 8} {
		var done, total int64
		c := mustOpen(t, newBuild().fs(), Options{Quantize: bits, Progress: func(d, n int64) {
			if d < done || d > n || total != 0 && n != total {
				t.Errorf("progress %d of %d after %d of %d", d, n, done, total)
			}
			done, total = d, n
		}})
		if done != total || total == 0 {
			t.Errorf("progress ended at %d of %d", done, total)
		}
		c.Weights.each(false, func(m *Matrix, gate bool) {
			want := bits
			if gate {
				want = 8
			}
			if m.Type != Affine || m.Bits != want || m.Group != 64 || m.ScaleType != BF16 {
				t.Errorf("a matrix of %d x %d is %v with %d bits in groups of %d, want %d bits", m.Rows, m.Cols, m.Type, m.Bits, m.Group, want)
			}
		})
		if c.ID == plain.ID {
			t.Errorf("%d bits: the id is that of the stored weights", bits)
		}
		got, want := dump(c), dump(plain)
		for name, w := range want {
			var worst, size float64
			for i := range w {
				worst = max(worst, math.Abs(float64(got[name][i]-w[i])))
				size = max(size, math.Abs(float64(w[i])))
			}
			if limit := size * 2 / float64(int(1)<<bits-1); worst > limit {
				t.Errorf("%d bits: %s is off by %g, want at most %g", bits, name, worst, limit)
			}
		}
	}
	b := newBuild()
	b.quantize(func(string) (int, int) { return 6, 32 })
	stored, again := mustOpen(t, b.fs(), Options{}), mustOpen(t, b.fs(), Options{Quantize: 4})
	if stored.ID != again.ID {
		t.Error("quantizing an affine checkpoint changed its id")
	}
	sameWeights(t, dump(again), dump(stored))
}

// A module whose inputs are no multiple of 64 stays as stored; a tied head follows the embedding.
func TestQuantizeLeavesOddInputs(t *testing.T) {
	c, err := Open("testdata/tiny-dense-tied-r1", Options{WeightsOnly: true, Quantize: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if h, e := &c.Weights.Head, &c.Weights.Embed; h.Type != Affine || &h.Data[0] != &e.Data[0] {
		t.Error("the tied head is no view of the quantised embedding")
	}
	m := storedMatrix(BF16, 96, make([]float32, 96))
	w := &Weights{Embed: *m, Head: *m}
	l := &loader{shape: &c.Shape, opt: Options{Quantize: 4}, progress: &progress{}}
	if bits := l.quantize(w); bits != 0 || w.Embed.Type != BF16 {
		t.Errorf("a matrix with 96 inputs became %v", w.Embed.Type)
	}
}

// TestQuantFixture checks against values computed by mx.quantize, in a file that is not ours to keep.
func TestQuantFixture(t *testing.T) {
	path := os.Getenv("LILYPAD_QUANT_FIXTURE")
	if path == "" {
		t.Skip("LILYPAD_QUANT_FIXTURE names no file of mx.quantize's values")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var fixture struct {
		Cases []struct {
			Name           string
			Rows, Cols     int
			Group          int `json:"group_size"`
			Bits           int
			Codes          []uint32
			Scales, Biases []float32
			Expected       []float32
		}
	}
	if err := json.Unmarshal(data, &fixture); err != nil {
		t.Fatal(err)
	}
	sources := map[string]func(i int) float32{
		"ramp":       func(i int) float32 { return -16 + float32(i)/2 },
		"q8_ramp":    func(i int) float32 { return -16 + float32(i)/2 },
		"const_1x64": func(int) float32 { return 3.25 },
	}
	for _, c := range fixture.Cases {
		m := Matrix{Rows: c.Rows, Cols: c.Cols, Type: Affine, Bits: c.Bits, Group: c.Group, ScaleType: BF16,
			Scales: storedMatrix(BF16, len(c.Scales), c.Scales).Data, Biases: storedMatrix(BF16, len(c.Biases), c.Biases).Data}
		for _, word := range c.Codes {
			m.Data = append(m.Data, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
		}
		for r := range c.Rows {
			for i, got := range rowOf(&m, r) {
				if want := c.Expected[r*c.Cols+i]; got != want {
					t.Errorf("%s: weight %d of row %d is %g, want %g", c.Name, i, r, got, want)
				}
			}
		}
		if source := sources[c.Name]; source != nil {
			v := make([]float32, c.Rows*c.Cols)
			for i := range v {
				v[i] = source(i)
			}
			q := quantized(storedMatrix(BF16, c.Cols, v), c.Bits, c.Group)
			if !slices.Equal(q.Data, m.Data) || !slices.Equal(q.Scales, m.Scales) || !slices.Equal(q.Biases, m.Biases) {
				t.Errorf("%s: quantised to other codes, scales or biases", c.Name)
			}
			t.Logf("%s: codes, scale and bias equal", c.Name)
		}
		t.Logf("%s: %d weights equal", c.Name, len(c.Expected))
	}
}

func BenchmarkQuantize4(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	v := make([]float32, 64*2048)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	m := storedMatrix(BF16, 2048, v)
	b.SetBytes(int64(len(v)))
	b.ReportAllocs()
	for b.Loop() {
		quantized(m, 4, 64)
	}
}
