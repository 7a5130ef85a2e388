package checkpoint

// fused takes qwen3_next's in_proj_qkvz and in_proj_ba and brings their rows into qwen3_5's order. They are grouped by key
// head: group κ of the first has rows [q(dk) | k(dk) | v(r*dv) | z(r*dv)], of the second [b(r) | a(r)], with
// r = ValueHeads/KeyHeads and value head h = κ*r + j. Rows are whole quantisation groups, so packed weights move too.
func (l *loader) fused(p string, d *DeltaWeights) {
	s := l.shape
	r := s.ValueHeads / s.KeyHeads
	dk, v := s.KeyDim, r*s.ValueDim
	qkvz := l.linear(p+"in_proj_qkvz", s.KeyHeads*(2*dk+2*v), s.Hidden)
	ba := l.linear(p+"in_proj_ba", s.KeyHeads*2*r, s.Hidden)
	if l.err != nil {
		return
	}
	group := 2*dk + 2*v
	d.QKV = join(pick(&qkvz, s.KeyHeads, group, 0, dk), pick(&qkvz, s.KeyHeads, group, dk, dk), pick(&qkvz, s.KeyHeads, group, 2*dk, v))
	d.Z = join(pick(&qkvz, s.KeyHeads, group, 2*dk+v, v))
	d.B = join(pick(&ba, s.KeyHeads, 2*r, 0, r))
	d.A = join(pick(&ba, s.KeyHeads, 2*r, r, r))
}

// pick views n rows at the given offset of each group.
func pick(m *Matrix, groups, stride, offset, n int) []Matrix {
	views := make([]Matrix, groups)
	for g := range views {
		views[g] = m.Slice(g*stride+offset, n)
	}
	return views
}

// join copies views of one matrix into a new one, in order.
func join(parts ...[]Matrix) Matrix {
	m := parts[0][0]
	m.Rows, m.Data, m.Scales, m.Biases = 0, nil, nil, nil
	for _, views := range parts {
		for _, v := range views {
			m.Rows += v.Rows
			m.Data = append(m.Data, v.Data...)
			m.Scales = append(m.Scales, v.Scales...)
			m.Biases = append(m.Biases, v.Biases...)
		}
	}
	return m
}
