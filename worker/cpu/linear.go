package cpu

import "lilypad/worker/checkpoint"

// maxOut is the number of results a unit wants at most, and unitWork the multiply-adds it should have at least.
const (
	maxOut   = 8192
	outRoom  = 2*maxOut + 64 // with what kernels round up to
	unitWork = 1 << 14
)

// projection is one matrix of a linearTask: row t of the activations gives dst[(t-shift)*stride:], written or added.
type projection struct {
	w             *checkpoint.Matrix
	dst           []float32
	stride, shift int
	add           bool
}

// linearTask multiplies rows of activations by some matrices at once; its units are runs of matrix rows.
type linearTask struct {
	p        *pass
	x        *batch
	from, to int // rows of x
	step     int // matrix rows per unit
	list     [4]projection
	n        int
}

// project multiplies rows [from, to) of x, whose block sums are filled, by the matrices of list.
func (p *pass) project(x *batch, from, to int, list ...projection) {
	k := &p.linear
	k.x, k.from, k.to = x, from, to
	k.n = copy(k.list[:], list)
	all := 0
	for _, j := range list {
		all += j.w.Rows
	}
	k.step = p.m.unitRows(x.cols, to-from, all)
	units := 0
	for _, j := range list {
		units += unitsOf(j.w.Rows, k.step)
	}
	p.m.pool.run(k, units)
}

// unitRows chooses how many of all matrix rows with cols columns a unit takes for m rows of activations: a multiple of 4
// with enough work, and enough units for all threads.
func (m *Model) unitRows(cols, rows, all int) int {
	step := max(unitWork/(cols*rows), all/(16*m.pool.size))
	return max(4, min(step, maxOut/rows)&^3)
}

func unitsOf(rows, step int) int { return (rows + step - 1) / step }

func (k *linearTask) unit(worker, i int) {
	for n := range k.n {
		j := &k.list[n]
		units := unitsOf(j.w.Rows, k.step)
		if i >= units {
			i -= units
			continue
		}
		first := i * k.step
		k.rows(&k.p.threads[worker], j, first, min(k.step, j.w.Rows-first))
		return
	}
	panic("BUG: unit beyond the matrices of a linear task")
}

// rows computes matrix rows [first, first+n) of one projection.
func (k *linearTask) rows(s *scratch, j *projection, first, n int) {
	m := k.to - k.from
	s.mulRows(s, s.out, j.w, first, n, k.x, nil, k.from, m)
	for t := range m {
		dst, y := j.dst[(k.from+t-j.shift)*j.stride+first:][:n], s.out[t*outStride(n):][:n]
		if !j.add {
			copy(dst, y)
			continue
		}
		for r, v := range y {
			dst[r] += v
		}
	}
}
