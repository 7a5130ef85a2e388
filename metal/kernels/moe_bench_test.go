package kernels_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/ref"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// tail is a device with room for the small inputs of the kernels after the attention, each a MiB on from the last.
type tail struct {
	device *metal.Device
	set    *kernels.Set
	small  *metal.Buffer
	next   int64
}

func newTail(b *testing.B) *tail {
	d := simtest.Open(b, sim.Options{Target: sim.CPU})
	if d.Info().Driver == "sim:cpu" {
		b.Skip("the simulator on the CPU has no speed to measure")
	}
	small, err := d.NewBuffer(64 << 20)
	if err != nil {
		b.Fatal(err)
	}
	t := &tail{device: d, set: kernels.New(d), small: small}
	b.Cleanup(func() { t.set.Close(); small.Close() })
	return t
}

// put stores v in a MiB of its own.
func (t *tail) put(b *testing.B, v any) kernels.Ref {
	r := t.room()
	bytes, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		b.Fatal(err)
	}
	if err := t.small.Write(bytes, r.Offset); err != nil {
		b.Fatal(err)
	}
	return r
}

func (t *tail) room() kernels.Ref {
	t.next += 1 << 20
	return kernels.Ref{Buffer: t.small, Offset: t.next - 1<<20}
}

// BenchmarkMoE runs one layer's experts at the 35B shape: 8 of 256 experts, other ones in each dispatch.
func BenchmarkMoE(b *testing.B) {
	const hidden, inner, count, topK = 2048, 512, 256, 8
	f := kernels.Format{Bits: 4, Group: 64}
	t := newTail(b)
	up := f.CodesBytes(2*inner, hidden) + f.PairsBytes(2*inner, hidden)
	down := f.CodesBytes(hidden, inner) + f.PairsBytes(hidden, inner)
	e := kernels.Experts{Count: count, Stride: (up + down + 16383) / 16384 * 16384}
	weights, err := t.device.NewBuffer(count*e.Stride + down)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(weights.Close)
	e.GateUp = kernels.Matrix{Format: f, Rows: 2 * inner, Cols: hidden, Buffer: weights, Pairs: f.CodesBytes(2*inner, hidden)}
	e.Down = kernels.Matrix{Format: f, Rows: hidden, Cols: inner, Buffer: weights, Codes: up, Pairs: up + f.CodesBytes(hidden, inner)}
	shared := e.Down
	shared.Codes, shared.Pairs = shared.Codes-up+count*e.Stride, shared.Pairs-up+count*e.Stride
	slots := make([]uint32, count) // a permutation, so that neighbours in a dispatch are far apart
	for i := range slots {
		slots[i] = uint32(i * 37 % count)
	}
	ids := t.put(b, slots)
	x, out, routed := t.room(), t.room(), t.room()
	norm := kernels.Norm{Squares: t.room(), Parts: hidden / 8, Eps: 1e-6}
	residual := kernels.Residual{H: t.room(), Gained: t.room(), Squares: t.room(), Gain: t.room()}
	slotsAt := func(i int) kernels.Ref { return ids.At(int64(i) * 4 * topK) }
	b.Run("up", func(b *testing.B) {
		timed(b, t.device, count/topK, topK*up, func(i int) (*metal.Dispatch, error) {
			return t.set.ExpertsUp(kernels.ExpertsUp{Experts: e, TopK: topK, IDs: slotsAt(i), X: x, Norm: norm, Out: out})
		})
	})
	b.Run("down", func(b *testing.B) {
		timed(b, t.device, count/topK, (topK+1)*down, func(i int) (*metal.Dispatch, error) {
			return t.set.ExpertsDown(kernels.ExpertsDown{Experts: e, TopK: topK, IDs: slotsAt(i), Weights: routed, X: out,
				Shared: shared, SharedX: x, Residual: residual})
		})
	})
	b.Run("route", func(b *testing.B) {
		timed(b, t.device, 40, 4*count, func(int) (*metal.Dispatch, error) {
			return t.set.Route(kernels.Route{Logits: norm.Squares, Shared: x, Experts: count, TopK: topK, Normalise: true, IDs: residual.H, Weights: routed})
		})
	})
}

// BenchmarkSample runs at the vocabulary of Qwen3.6.
func BenchmarkSample(b *testing.B) {
	const vocab = 248_320
	rng := rand.New(rand.NewPCG(1, 2))
	logits, allowed := make([]float32, vocab), make([]uint32, vocab/32)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for i := range allowed {
		allowed[i] = math.MaxUint32
	}
	for _, bb := range []struct {
		name string
		p    kernels.SampleParams
	}{
		{"greedy", kernels.SampleParams{}},
		{"top-k 20, top-p 0.95", kernels.SampleParams{Temperature: 1, TopK: 20, TopP: 0.95}},
		{"top-k 256", kernels.SampleParams{Temperature: 1, TopK: 256}},
		{"cold, top-p 0.95", kernels.SampleParams{Temperature: 0.2, TopP: 0.95}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			t := newTail(b)
			s := kernels.Sample{Logits: t.put(b, logits), Vocab: vocab, Allowed: t.put(b, allowed), Partials: t.put(b, ref.Best(logits, allowed, 32)),
				Parts: vocab / 32, Params: t.put(b, bb.p), Step: t.put(b, [6]uint32{}), Results: t.room()}
			timed(b, t.device, 20, 8*vocab/32, func(int) (*metal.Dispatch, error) { return t.set.Sample(s) })
		})
	}
}
