package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/ref"
)

// prefillTokens is the chunk that prefill is measured with.
const prefillTokens = 2048

// putRandom fills a buffer from a byte on with numbers of a normal distribution, as bf16 or f32.
func putRandom(b *testing.B, buffer *metal.Buffer, at int64, n int, kind kernels.Type, deviation float64) {
	b.Helper()
	const some = 1 << 16 // numbers, again and again
	random := rand.New(rand.NewPCG(1, 1))
	var data []byte
	for range some {
		x := float32(random.NormFloat64() * deviation)
		if kind == kernels.BF16 {
			data = binary.LittleEndian.AppendUint16(data, ref.Bfloat(x))
		} else {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
	}
	for done := 0; done < n; done += some {
		part := min(some, n-done) * kind.Bytes()
		if err := buffer.Write(data[:part], at+int64(done*kind.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPrefillAttention runs the attention layers of the 35B shape over a chunk behind several positions.
func BenchmarkPrefillAttention(b *testing.B) {
	for _, position := range []int{0, 2048, 14336, 63488} {
		b.Run(fmt.Sprint(position), func(b *testing.B) {
			const layers, width = 10, 9216
			length := position + prefillTokens
			shape := kernels.AttentionShape{Heads: 16, KVHeads: 2, HeadDim: 256, Rotary: 64, Layers: layers, Blocks: length / 64, Entries: length / 64}
			kv := int64(length) * layers * 2048
			d, set, buffer := openFast(b, 256<<20+kv)
			at := func(mib int64) kernels.Ref { return kernels.Ref{Buffer: buffer, Offset: mib << 20} }
			putStep(b, buffer, byte(position), 0, 0, byte(position>>8))
			table := make([]byte, 4*shape.Blocks)
			for i := range shape.Blocks {
				binary.LittleEndian.PutUint32(table[4*i:], uint32(i))
			}
			if err := buffer.Write(table, 1<<20); err != nil {
				b.Fatal(err)
			}
			putRandom(b, buffer, 8<<20, prefillTokens*width, kernels.BF16, 1)
			putRandom(b, buffer, 64<<20, prefillTokens*4096, kernels.BF16, 1.0/16)
			putRandom(b, buffer, 256<<20, int(kv/2), kernels.BF16, 1)
			a := kernels.PrefillAttention{AttentionShape: shape, Rows: prefillTokens, Queries: at(64), Proj: at(8), Width: width, KV: at(256),
				Table: at(1), Step: at(0), MaxLength: length, Out: at(128)}
			timed(b, d, layers, kv/layers, func(i int) (*metal.Dispatch, error) {
				a.Layer = i
				return set.PrefillAttention(a)
			})
		})
	}
}

// BenchmarkPrefillAttentionPrep runs the preparation of attention of a chunk at the 35B shape.
func BenchmarkPrefillAttentionPrep(b *testing.B) {
	const width = 9216
	d, set, buffer := openFast(b, 512<<20)
	at := func(mib int64) kernels.Ref { return kernels.Ref{Buffer: buffer, Offset: mib << 20} }
	timed(b, d, 10, prefillTokens*width*2, func(i int) (*metal.Dispatch, error) {
		return set.PrefillAttentionPrep(kernels.PrefillAttentionPrep{
			AttentionShape: kernels.AttentionShape{Heads: 16, KVHeads: 2, HeadDim: 256, Rotary: 64, Layers: 10, Blocks: 32, Layer: i, Entries: 32},
			Rows:           prefillTokens, Proj: at(64), Width: width, K: 8192, V: 8704, QGain: at(2), KGain: at(3), Eps: 1e-6, Coarse: at(4), Fine: at(5),
			Positions: prefillTokens, KV: at(128), Table: at(6), Step: at(0), MaxLength: prefillTokens, Out: at(256)})
	})
}

// BenchmarkPrefillDelta runs the dispatches of the DeltaNet layers of the 35B shape over a chunk.
func BenchmarkPrefillDelta(b *testing.B) {
	for _, c := range []struct {
		name    string
		prepare deltaRoute
	}{
		{"prep", (*kernels.Set).PrefillDeltaPrep},
		{"scan", (*kernels.Set).PrefillDeltaScan},
		{"solve", (*kernels.Set).PrefillDeltaSolve},
		{"chunks", (*kernels.Set).PrefillDeltaChunks},
		{"gate", (*kernels.Set).PrefillDeltaGate},
	} {
		for _, rows := range []int{64, 256, prefillTokens} {
			b.Run(fmt.Sprint(c.name, " of ", rows), func(b *testing.B) {
				const layers, width = 30, 12352
				d, set, buffer := openFast(b, 512<<20)
				at := func(mib int64) kernels.Ref { return kernels.Ref{Buffer: buffer, Offset: mib << 20} }
				putStep(b, buffer, 0, 0, 1)
				putRandom(b, buffer, 16<<20, prefillTokens*width, kernels.BF16, 1)
				p := kernels.PrefillDelta{Rows: rows, Proj: at(16), Width: width, Z: 8192, B: 12288, A: 12320, ConvW: at(2), Decay: at(3),
					DtBias: at(4), Gain: at(5), Conv: at(8), Recurrent: at(256), Slots: 2, Layers: layers, KeyHeads: 16, ValueHeads: 32, KeyDim: 128,
					ValueDim: 128, Taps: 4, Eps: 1e-6, Step: at(0), Scratch: at(128), Out: at(80),
					Chunks: c.name == "solve" || c.name == "chunks"}
				timed(b, d, layers, int64(rows*width*2), func(i int) (*metal.Dispatch, error) {
					p.Layer = i
					return c.prepare(set, p)
				})
			})
		}
	}
}
