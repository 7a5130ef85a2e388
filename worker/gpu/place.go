package gpu

import (
	"fmt"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/worker/checkpoint"
)

// align is the alignment of everything that is placed in a buffer.
const align = 256

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// placer collects what goes to device memory and lays it out in a few big buffers: flush makes buffers for what was
// placed since the last one, each as large as the device allows at most.
type placer struct {
	device  *metal.Device
	buffers []*metal.Buffer
	pending []placement
	jobs    []job
	bytes   int64 // of all buffers
	seeds   uint64
}

// placement is memory to come: set is told where.
type placement struct {
	size int64
	set  func(b *metal.Buffer, offset int64)
}

// job fills length bytes of a buffer, which are zero before. Jobs run on several goroutines.
type job struct {
	buffer         *metal.Buffer
	offset, length int64
	fill           func(dst []byte)
}

func (p *placer) place(size int64, set func(b *metal.Buffer, offset int64)) {
	p.pending = append(p.pending, placement{size, set})
}

// flush places what is pending.
func (p *placer) flush() error {
	most := p.device.Info().MaxBuffer
	for len(p.pending) > 0 {
		n, size := 0, int64(0)
		offsets := make([]int64, 0, len(p.pending))
		for n < len(p.pending) && size+p.pending[n].size <= most {
			offsets = append(offsets, size)
			size = roundUp(size+p.pending[n].size, align)
			n++
		}
		if n == 0 {
			return fmt.Errorf("a part of the weights has %d bytes, but a buffer of this GPU at most %d", p.pending[0].size, most)
		}
		b, err := p.device.NewBuffer(min(size, most))
		if err != nil {
			return fmt.Errorf("weights: %w", err)
		}
		p.buffers = append(p.buffers, b)
		p.bytes += b.Length()
		for i, pl := range p.pending[:n] {
			pl.set(b, offsets[i])
		}
		p.pending = p.pending[n:]
	}
	return nil
}

// jobBytes is the most bytes of one job.
const jobBytes = 4 << 20

// seed numbers the pieces of synthetic weights.
func (p *placer) seed() uint64 {
	p.seeds++
	return p.seeds
}

// rows adds the jobs that fill all rows of m, whose first row is row first of the device matrix d.
func (p *placer) rows(d *kernels.Matrix, first int, m *checkpoint.Matrix) {
	p.strips(d.Buffer, d.Codes, d.RowBytes(d.Cols), first, m, func(dst []byte, from, n int, seed uint64) {
		packCodes(dst, d.Format, m, from, n, seed)
	})
	if d.Bits > 0 {
		p.strips(d.Buffer, d.Pairs, d.PairRowBytes(d.Cols), first, m, func(dst []byte, from, n int, seed uint64) {
			packPairs(dst, d.Format, m, from, n, seed)
		})
	}
}

// strips cuts rows of stride bytes, starting at row first from base, into jobs.
func (p *placer) strips(b *metal.Buffer, base, stride int64, first int, m *checkpoint.Matrix, pack func(dst []byte, from, n int, seed uint64)) {
	step := max(1, int(jobBytes/stride))
	for from := 0; from < m.Rows; from += step {
		n, seed := min(step, m.Rows-from), p.seed()
		p.jobs = append(p.jobs, job{b, base + int64(first+from)*stride, int64(n) * stride, func(dst []byte) { pack(dst, from, n, seed) }})
	}
}

// matrix places a stack of matrices, one below the other in one format, and sets d.
func (p *placer) matrix(d *kernels.Matrix, f kernels.Format, stack ...*checkpoint.Matrix) {
	rows, cols := 0, stack[0].Cols
	for _, m := range stack {
		rows += m.Rows
	}
	codes := roundUp(f.CodesBytes(rows, cols), 16)
	p.place(codes+f.PairsBytes(rows, cols), func(b *metal.Buffer, offset int64) {
		*d = kernels.Matrix{Format: f, Rows: rows, Cols: cols, Buffer: b, Codes: offset, Pairs: offset + codes}
		first := 0
		for _, m := range stack {
			p.rows(d, first, m)
			first += m.Rows
		}
	})
}

// vector places fp32 numbers and sets r.
func (p *placer) vector(r *kernels.Ref, v []float32) {
	p.place(int64(4*len(v)), func(b *metal.Buffer, offset int64) {
		*r = kernels.Ref{Buffer: b, Offset: offset}
		p.jobs = append(p.jobs, job{b, offset, int64(4 * len(v)), func(dst []byte) { putFloats(dst, v) }})
	})
}

func (p *placer) close() {
	for _, b := range p.buffers {
		b.Close()
	}
	p.buffers = nil
}
