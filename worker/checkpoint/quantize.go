package checkpoint

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// loadGroup is the group size of quantisation while loading; modules whose inputs it doesn't divide stay as stored, as
// in mlx-lm.
const loadGroup = 64

// gateBits is the least width of routers and shared-expert gates: 4-bit routers degrade, and the published files use 8.
const gateBits = 8

// quantize turns unquantised linear modules into affine ones if the options say so, on all cores. It returns the
// width, or 0 if nothing changed.
func (l *loader) quantize(w *Weights) int {
	if l.opt.Quantize == 0 {
		return 0
	}
	type job struct {
		m    *Matrix
		bits int
	}
	var jobs []job
	var total int64
	w.each(l.shape.Tied, func(m *Matrix, gate bool) {
		if m.Type == Affine || m.Cols%loadGroup != 0 {
			return
		}
		bits := l.opt.Quantize
		if gate {
			bits = max(bits, gateBits)
		}
		jobs = append(jobs, job{m, bits})
		total += m.Bytes()
	})
	l.progress.add(l.progress.total - total)
	if len(jobs) == 0 {
		return 0
	}
	var next atomic.Int64
	var lock sync.Mutex
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				j := jobs[i]
				stored := j.m.Bytes()
				*j.m = quantized(j.m, j.bits, loadGroup)
				lock.Lock()
				l.progress.add(stored)
				lock.Unlock()
			}
		})
	}
	workers.Wait()
	if l.shape.Tied {
		w.Head = w.Embed
	}
	return l.opt.Quantize
}

// quantized returns m in the affine layout, its scales and biases of m's own type.
func quantized(m *Matrix, bits, group int) Matrix {
	q := Matrix{Rows: m.Rows, Cols: m.Cols, Type: Affine, Bits: bits, Group: group, ScaleType: m.Type}
	q.Data = make([]byte, q.Rows*q.RowBytes())
	q.Scales = make([]byte, q.Rows*q.ScaleRowBytes())
	q.Biases = make([]byte, q.Rows*q.ScaleRowBytes())
	row, codes := make([]float32, m.Cols), make([]uint32, m.Cols)
	for r := range m.Rows {
		m.Row(r, row)
		for g := range q.Groups() {
			w := row[g*group:][:group]
			scale, bias := groupParameters(w, bits)
			encode(q.ScaleType, q.Scales, r*q.Groups()+g, scale)
			encode(q.ScaleType, q.Biases, r*q.Groups()+g, bias)
			for i, v := range w {
				codes[g*group+i] = code(v, scale, bias, bits)
			}
		}
		pack(bits, codes, q.Data[r*q.RowBytes():])
	}
	return q
}

// groupParameters gives the scale and bias of a group, unrounded, as mx.quantize does on the GPU (Metal), where published
// checkpoints were made: the maximum starts from 0, and halves round away from zero. The edge of larger magnitude becomes
// the bias and 0 is representable.
func groupParameters(w []float32, bits int) (scale, bias float32) {
	low, high := float32(math.Inf(1)), float32(0)
	for _, v := range w {
		low, high = min(low, v), max(high, v)
	}
	scale = max((high-low)/float32(int(1)<<bits-1), 1e-7)
	edge := low
	if abs(low) <= abs(high) {
		edge, scale = high, -scale
	}
	if q0 := round(edge / scale); q0 != 0 {
		return edge / q0, edge
	}
	return scale, 0
}

// code is the nearest code of v, halves away from zero. A NaN becomes 0.
func code(v, scale, bias float32, bits int) uint32 {
	x, most := (v-bias)/scale, float32(int(1)<<bits-1)
	if !(x > 0) {
		return 0
	}
	return uint32(float64(min(x, most)) + 0.5) // exact in float64, and so is the cut
}

// round rounds to the nearest integer, halves away from zero.
func round(f float32) float32 { return float32(math.Round(float64(f))) }

func abs(f float32) float32 { return math.Float32frombits(math.Float32bits(f) &^ (1 << 31)) }
