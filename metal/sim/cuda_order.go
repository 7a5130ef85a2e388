package sim

import "lilypad/metal"

// touched is a range of a buffer that a dispatch may read or write.
type touched struct {
	buffer   *metal.Buffer
	from, to int64
	write    bool
}

// ordered is a dispatch of a recording: its level, counted in barriers before it, and what it touches.
type ordered struct {
	level  int
	ranges []touched
}

func rangesOf(l *metal.Launch) []touched {
	ranges := make([]touched, len(l.Buffers))
	for i, b := range l.Buffers {
		ranges[i] = touched{b.Buffer, b.Offset, b.Offset + b.Length, b.Access&metal.Out != 0}
	}
	return ranges
}

func (o *ordered) conflicts(with *ordered) bool {
	for _, a := range o.ranges {
		for _, b := range with.ranges {
			if a.buffer == b.buffer && (a.write || b.write) && a.from < b.to && b.from < a.to {
				return true
			}
		}
	}
	return false
}

// producers returns, for each dispatch, those before it that it has to wait for: dispatches of earlier levels that touch
// the same bytes, one of the two writing, and that no other of its producers waits for already. Barriers order more than
// that, but what they order beyond it can't be observed; so independent branches of a plan may run side by side.
func producers(ops []ordered) [][]int {
	words := (len(ops) + 63) / 64
	behind := make([]uint64, words*len(ops)) // row i: all dispatches that i comes after
	list := make([][]int, len(ops))
	for i := range ops {
		mine := behind[i*words : (i+1)*words]
		for j := i - 1; j >= 0; j-- {
			if ops[j].level == ops[i].level || mine[j/64]>>(j%64)&1 != 0 || !ops[i].conflicts(&ops[j]) {
				continue
			}
			list[i] = append(list[i], j)
			mine[j/64] |= 1 << (j % 64)
			for w, bits := range behind[j*words : (j+1)*words] {
				mine[w] |= bits
			}
		}
	}
	return list
}
