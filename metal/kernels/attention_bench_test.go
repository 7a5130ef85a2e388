package kernels_test

import (
	"fmt"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// openFast opens a device whose speed means something, a set, and a buffer of zeros.
func openFast(b *testing.B, bytes int64) (*metal.Device, *kernels.Set, *metal.Buffer) {
	b.Helper()
	d := simtest.Open(b, sim.Options{Target: sim.CPU})
	if d.Info().Driver == "sim:cpu" {
		b.Skip("the simulator on the CPU has no speed to measure")
	}
	set := kernels.New(d)
	b.Cleanup(set.Close)
	buffer, err := d.NewBuffer(bytes)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(buffer.Close)
	return d, set, buffer
}

// BenchmarkDelta runs the DeltaNet layers of the 35B shape one after the other; states are read and written.
func BenchmarkDelta(b *testing.B) {
	d, set, buffer := openFast(b, 512<<20)
	at := func(mib int64) kernels.Ref { return kernels.Ref{Buffer: buffer, Offset: mib << 20} }
	const layers, state = 30, 32 * 128 * 128 * 4
	putStep(b, buffer, 0, 0, 1)
	timed(b, d, layers, 2*state, func(i int) (*metal.Dispatch, error) {
		return set.Delta(kernels.Delta{Proj: at(1), Z: 8192, B: 12288, A: 12320, ConvW: at(2), Decay: at(3), DtBias: at(4), Gain: at(5),
			Conv: at(8), Recurrent: at(64), Slots: 2, Layer: i, Layers: layers, KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128,
			Taps: 4, Eps: 1e-6, Step: at(0), Out: at(6)})
	})
}

// putStep writes a step at the buffer's start.
func putStep(b *testing.B, buffer *metal.Buffer, position, in, out byte, more ...byte) {
	b.Helper()
	step := make([]byte, kernels.StepBytes)
	step[4], step[8], step[12] = position, in, out
	copy(step[5:], more)
	if err := buffer.Write(step, 0); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAttention runs the attention layers of the 35B shape at several contexts, with and without splits.
func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct{ length, splits int }{
		{256, 1}, {256, 4}, {256, 8}, {256, 16}, {512, 1}, {512, 16}, {512, 32}, {1024, 1}, {1024, 32}, {4096, 1}, {4096, 64},
		{4096, 66}, {4096, 128}, {32768, 64}, {32768, 66}, {32768, 132}, {32768, 198}, {32768, 256},
	} {
		b.Run(fmt.Sprintf("%d/%d", c.length, c.splits), func(b *testing.B) {
			const layers = 10
			shape := kernels.AttentionShape{Heads: 16, KVHeads: 2, HeadDim: 256, Rotary: 64, Layers: layers, Blocks: c.length / 64}
			kv := int64(c.length) * layers * 2048
			d, set, buffer := openFast(b, 64<<20+kv)
			at := func(mib int64) kernels.Ref { return kernels.Ref{Buffer: buffer, Offset: mib << 20} }
			position := c.length - 1
			putStep(b, buffer, byte(position), 0, 0, byte(position>>8))
			table := make([]byte, 4*shape.Blocks)
			for i := range shape.Blocks {
				table[4*i], table[4*i+1] = byte(i), byte(i>>8)
			}
			if err := buffer.Write(table, 1<<20); err != nil {
				b.Fatal(err)
			}
			shape.Entries = shape.Blocks
			a := kernels.Attention{AttentionShape: shape, Queries: at(2), Proj: at(3), KV: at(64), Table: at(1), Step: at(0), Out: at(4),
				Splits: c.splits, MaxLength: c.length, Partials: at(8)}
			n := layers
			if c.splits > 1 {
				n *= 2
			}
			timed(b, d, n, kv/int64(n), func(i int) (*metal.Dispatch, error) {
				a := a
				if a.Layer = i; c.splits == 1 {
					return set.Attention(a)
				}
				if a.Layer = i / 2; i%2 == 0 {
					return set.Attention(a)
				}
				return set.AttentionMerge(a)
			})
		})
	}
}

// BenchmarkAttentionPrep runs the preparation of attention at the 35B shape.
func BenchmarkAttentionPrep(b *testing.B) {
	d, set, buffer := openFast(b, 64<<20)
	at := func(mib int64) kernels.Ref { return kernels.Ref{Buffer: buffer, Offset: mib << 20} }
	timed(b, d, 10, 2*5120, func(i int) (*metal.Dispatch, error) {
		return set.AttentionPrep(kernels.AttentionPrep{
			AttentionShape: kernels.AttentionShape{Heads: 16, KVHeads: 2, HeadDim: 256, Rotary: 64, Layers: 10, Blocks: 1, Layer: i, Entries: 1},
			Proj:           at(1), K: 8192, V: 8704, QGain: at(2), KGain: at(3), Eps: 1e-6, Coarse: at(4), Fine: at(5), Positions: 512,
			KV: at(16), Table: at(6), Step: at(0), Out: at(7)})
	})
}
