package kernels

// route is how a matrix times vector is spread over the GPU: see linear.metal.
type route struct {
	rows  int // of a set of simdgroups: 1, 2, 4 or 8
	split int // simdgroups of a set, which share its columns: 1, 2, 4 or 8
	sets  int // of a threadgroup
	tiles int // of a threadgroup of Best, one after the other; else 1
}

// tile is the rows of a threadgroup.
func (r route) tile() int { return r.rows * r.sets }

func (r route) threads() int { return 32 * r.split * r.sets }

// limits are what an end of Linear demands of a route.
type limits struct {
	rows int // at least, of a set
	tile int // of which the tile is a multiple
}

// BestRows is the rows that one partial of Best stands for, on every route: those of a word of the mask.
const BestRows = 32

func (l Linear) limits() limits {
	switch {
	case l.Best != nil:
		return limits{4, BestRows}
	case l.Residual != nil:
		return limits{1, 8} // the rows of a sum of squares
	case l.SwiGLU:
		return limits{2, 1} // a gate and its up
	}
	return limits{1, 1}
}

// maxSimdgroups is the most that a threadgroup may have: pipelines with many registers allow no more than 512 threads.
const maxSimdgroups = 16

// chooseRoute spreads rows by units of columns. Too few simdgroups don't keep enough loads in flight, so small matrices
// split their columns first, as long as each lane has a unit, and then take fewer rows at once; many rows at once save
// loads of the vector, which counts most on GPUs of so many cores that no Mac has (measured on an H200: 8 rows take 7.1 us
// for 12352x2048 where 4 take 8.4; for 2048x4096, 4 rows take 3.5 us where 2 take 4.6).
func chooseRoute(rows, units, cores int, l limits) route {
	if cores == 0 {
		cores = 40
	}
	wanted := min(max(64*cores, 512), 2048)
	least := func(rows int) int { return (l.tile + rows - 1) / rows } // sets
	r := route{rows: 4, split: 1, tiles: 1}
	few := func() bool { return (rows+r.rows-1)/r.rows*r.split < wanted }
	if cores > 100 && rows >= 64*cores {
		r.rows = 8
	} else {
		for few() && units >= 64*r.split && 2*r.split*least(r.rows) <= maxSimdgroups {
			r.split *= 2
		}
		for few() && r.rows > l.rows && r.split*least(r.rows/2) <= maxSimdgroups {
			r.rows /= 2
		}
	}
	r.sets = max(4/r.split, least(r.rows))
	if l.tile == BestRows && rows >= 4*BestRows*wanted/r.sets {
		r.tiles = 4 // still as many simdgroups as wanted, which begin and end less often
	}
	return r
}
