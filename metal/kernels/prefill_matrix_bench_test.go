package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/ref"
)

// BenchmarkPrefillMatrix runs the matrix products of a chunk at the 35B shape, with random routing. On sim:cpu they are skipped:
// run them with LILYPAD_SIM=cuda.
func BenchmarkPrefillMatrix(b *testing.B) {
	const hidden, inner, experts, topK = 2048, 512, 256, 8
	q4, q8 := kernels.Format{Bits: 4, Group: 64}, kernels.Format{Bits: 8, Group: 64}
	for _, count := range []int{2048, 512, 16} {
		for _, c := range []struct {
			name       string
			rows, cols int
			format     kernels.Format
			set        func(l *kernels.LinearRows)
		}{
			{"delta-in", 12352, hidden, q4, func(l *kernels.LinearRows) { l.OutType = kernels.F32 }},
			{"attention-in", 9216, hidden, q4, func(l *kernels.LinearRows) { l.OutType = kernels.F32 }},
			{"out", hidden, 4096, q4, func(l *kernels.LinearRows) { l.OutType, l.Residual = kernels.F32, true }},
			{"shared-up", 2 * inner, hidden, q4, func(l *kernels.LinearRows) { l.SwiGLU = true }},
			{"shared-down", hidden, inner, q4, func(l *kernels.LinearRows) { l.OutType = kernels.F32 }},
			{"router", experts + 1, hidden, q8, func(l *kernels.LinearRows) { l.OutType, l.XType = kernels.F32, kernels.F32 }},
			{"plain", 4096, 4096, kernels.Format{}, func(*kernels.LinearRows) {}},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, count), func(b *testing.B) {
				t := newRooms(b)
				m, _ := t.matrix(c.format, c.rows, c.cols)
				l := kernels.LinearRows{W: m, X: t.room[0], XType: kernels.F16, Count: count, Out: t.room[1], OutType: kernels.F16}
				c.set(&l)
				tiles := denseTiles
				if l.XType == kernels.F32 {
					tiles = [][2]int{{16, 64}, {32, 64}}
				}
				for _, tile := range tiles {
					b.Run(fmt.Sprintf("%dx%d", tile[0], tile[1]), func(b *testing.B) {
						t.flops(b, 2*float64(count)*float64(c.rows)*float64(c.cols), func() (*metal.Dispatch, error) { return t.set.LinearRowsBy(l, tile[0], tile[1]) })
					})
				}
			})
		}
		b.Run(fmt.Sprintf("experts/%d", count), func(b *testing.B) {
			t := newRooms(b)
			e := kernels.Experts{Count: experts}
			var end int64
			e.GateUp, end = t.matrix(q4, 2*inner, hidden)
			e.Down = kernels.Matrix{Format: q4, Rows: hidden, Cols: inner, Buffer: t.weights, Codes: end, Pairs: end + q4.CodesBytes(hidden, inner)}
			e.Stride = (e.Down.Pairs + q4.PairsBytes(hidden, inner) + 16383) / 16384 * 16384
			for _, tile := range denseTiles {
				height, outputs := tile[0], tile[1]
				g := kernels.Grouped{Count: count, TopK: topK, Height: height, Tokens: t.room[2], Tiles: t.room[3]}
				group := kernels.GroupRows{IDs: t.room[4], Experts: experts, Grouped: g, Places: t.room[5], Loads: t.room[6]}
				product := 2 * float64(count) * topK * hidden * inner
				b.Run(fmt.Sprintf("group/%dx%d", height, outputs), func(b *testing.B) {
					t.flops(b, 0, func() (*metal.Dispatch, error) { return t.set.GroupRows(group) })
				})
				b.Run(fmt.Sprintf("up/%dx%d", height, outputs), func(b *testing.B) {
					t.flops(b, 2*product, func() (*metal.Dispatch, error) {
						return t.set.ExpertsUpRowsBy(kernels.ExpertsUpRows{Experts: e, Grouped: g, X: t.room[0], Out: t.room[1]}, outputs)
					})
				})
				b.Run(fmt.Sprintf("down/%dx%d", height, outputs), func(b *testing.B) {
					t.flops(b, product, func() (*metal.Dispatch, error) {
						return t.set.ExpertsDownRowsBy(kernels.ExpertsDownRows{Experts: e, Grouped: g, X: t.room[1], Out: t.room[7], OutType: kernels.F32}, outputs)
					})
				})
			}
			b.Run("combine", func(b *testing.B) {
				t.flops(b, 0, func() (*metal.Dispatch, error) {
					return t.set.CombineRows(kernels.CombineRows{TopK: topK, Places: t.room[5], Weights: t.room[8], Experts: t.room[7], Shared: t.room[0],
						Type: kernels.F32, Norm: kernels.NormRows{H: t.room[9], Count: count, Cols: hidden, Gain: t.room[10], X: t.room[1]}})
				})
			})
			b.Run("choose", func(b *testing.B) {
				t.flops(b, 0, func() (*metal.Dispatch, error) {
					return t.set.RouteRows(kernels.RouteRows{Logits: t.room[0], Count: count, Experts: experts, TopK: topK, Normalise: true, IDs: t.room[5], Weights: t.room[8]})
				})
			})
			b.Run("norm", func(b *testing.B) {
				t.flops(b, 0, func() (*metal.Dispatch, error) {
					return t.set.NormRows(kernels.NormRows{H: t.room[9], Count: count, Cols: hidden, Gain: t.room[10], X: t.room[1]})
				})
			})
		})
	}
}

// rooms is a device with weights of 512 MiB and twelve rooms of 256 MiB for what a chunk computes.
type rooms struct {
	*tail
	weights *metal.Buffer
	room    [12]kernels.Ref
}

func newRooms(b *testing.B) *rooms {
	t := &rooms{tail: newTail(b)}
	large, err := t.device.NewBuffer(int64(len(t.room)) * (256 << 20))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(large.Close)
	if t.weights, err = t.device.NewBuffer(pool); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(t.weights.Close)
	for i := range t.room {
		t.room[i] = kernels.Ref{Buffer: large, Offset: int64(i) << 28}
	}
	t.routed(b)
	return t
}

// routed stores random experts of 2048 tokens in room[4], and what random vectors and codes there is room for.
func (t *rooms) routed(b *testing.B) {
	b.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	bytes := make([]byte, 32<<20)
	for i := range bytes {
		bytes[i] = byte(rng.Uint32())
	}
	for at := int64(0); at < pool; at += int64(len(bytes)) {
		check(b, t.weights.Write(bytes, at))
	}
	for i := 0; i < len(bytes); i += 2 {
		binary.LittleEndian.PutUint16(bytes[i:], ref.HalfBits(float32(rng.NormFloat64())))
	}
	check(b, t.room[0].Buffer.Write(bytes, t.room[0].Offset))
	check(b, t.room[1].Buffer.Write(bytes, t.room[1].Offset))
	var ids []byte
	for range 2048 {
		slots := rng.Perm(256)[:8]
		slices.Sort(slots)
		for _, id := range slots {
			ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
		}
	}
	check(b, t.room[4].Buffer.Write(ids, t.room[4].Offset))
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// matrix is one at the start of the weights, and where it ends.
func (t *rooms) matrix(f kernels.Format, rows, cols int) (kernels.Matrix, int64) {
	codes := f.CodesBytes(rows, cols)
	return kernels.Matrix{Format: f, Rows: rows, Cols: cols, Buffer: t.weights, Pairs: codes}, codes + f.PairsBytes(rows, cols)
}

// flops reports the time of one of eight such dispatches, each after the other, and its rate: what stands there as GB/s is
// GFLOP/s.
func (t *rooms) flops(b *testing.B, flop float64, prepare func() (*metal.Dispatch, error)) {
	timed(b, t.device, 8, int64(flop), func(int) (*metal.Dispatch, error) { return prepare() })
}
