package checkpoint

import (
	"slices"
)

// linear takes a linear module, quantised or not, of the given logical shape: [rows, cols], or [experts, rows, cols] for a
// stack, whose Matrix has experts*rows rows.
func (l *loader) linear(module string, shape ...int) Matrix {
	if l.has(module + ".scales") {
		return l.affine(module, shape)
	}
	if o, ok := l.quant.modules[module]; ok && !o.off {
		l.fail(refuse("%s: module %q has an entry in config.json's quantization but no tensor %q", l.file, l.prefix+module, l.prefix+module+".scales"))
	}
	return l.stored(module+".weight", shape...)
}

// stored takes an unquantised matrix.
func (l *loader) stored(name string, shape ...int) Matrix {
	t := l.take(name)
	if t == nil {
		return Matrix{}
	}
	dtype, ok := floatTypes[t.dtype]
	if !ok {
		l.fail(refuse("%s: tensor %q is %s without scales, want BF16, F16 or F32", t.file, t.name, t.dtype))
		return Matrix{}
	}
	if !slices.Equal(t.shape, shape) {
		l.fail(refuse("%s: tensor %q has the shape %v, want %v", t.file, t.name, t.shape, shape))
		return Matrix{}
	}
	rows, cols := flatten(shape)
	return Matrix{Rows: rows, Cols: cols, Type: dtype, Data: t.data}
}

// affine takes the three tensors of an MLX module. Bits and group size follow from the shapes, and must agree with
// config.json's entry for the module, as in mlx-lm.
func (l *loader) affine(module string, shape []int) Matrix {
	w, s := l.take(module+".weight"), l.take(module+".scales")
	if w == nil || s == nil {
		return Matrix{}
	}
	if !l.quant.given {
		l.fail(refuse("%s: tensor %q exists but config.json has no quantization", s.file, s.name))
		return Matrix{}
	}
	b := l.take(module + ".biases")
	if b == nil {
		return Matrix{}
	}
	rows, cols := flatten(shape)
	m := Matrix{Rows: rows, Cols: cols, Type: Affine, Data: w.data, ScaleType: floatTypes[s.dtype], Scales: s.data, Biases: b.data}
	lead := shape[:len(shape)-1]
	switch {
	case w.dtype != "U32":
		l.fail(refuse("%s: tensor %q is %s, want U32", w.file, w.name, w.dtype))
	case m.ScaleType == 0:
		l.fail(refuse("%s: tensor %q is %s, want BF16, F16 or F32", s.file, s.name, s.dtype))
	case b.dtype != s.dtype || !slices.Equal(b.shape, s.shape):
		l.fail(refuse("%s: tensor %q is %s %v, want %s %v as its scales", b.file, b.name, b.dtype, b.shape, s.dtype, s.shape))
	case len(w.shape) != len(shape) || !slices.Equal(w.shape[:len(lead)], lead):
		l.fail(refuse("%s: tensor %q has the shape %v, want %v and packed columns", w.file, w.name, w.shape, lead))
	case len(s.shape) != len(shape) || !slices.Equal(s.shape[:len(lead)], lead):
		l.fail(refuse("%s: tensor %q has the shape %v, want %v and groups", s.file, s.name, s.shape, lead))
	default:
		l.widths(&m, module, w, s)
	}
	return m
}

// widths fills Bits and Group from the packed columns and the groups of a row.
func (l *loader) widths(m *Matrix, module string, w, s *tensor) {
	packed, groups := w.shape[len(w.shape)-1], s.shape[len(s.shape)-1]
	m.Bits = exactQuotient(32*packed, m.Cols)
	m.Group = exactQuotient(m.Cols, groups)
	if !slices.Contains(bitWidths, m.Bits) {
		l.fail(refuse("%s: tensor %q has %d packed columns, which is not 2, 3, 4, 5, 6 or 8 bits for %d inputs", w.file, w.name, packed, m.Cols))
		return
	}
	if !slices.Contains(groupSizes, m.Group) {
		l.fail(refuse("%s: tensor %q has %d groups, which is not 32, 64 or 128 each for %d inputs", s.file, s.name, groups, m.Cols))
		return
	}
	o, ok := l.quant.modules[module]
	switch {
	case !ok:
	case o.off:
		l.fail(refuse("%s: tensor %q exists but config.json's quantization says false for its module", s.file, s.name))
	case o.bits != 0 && o.bits != m.Bits:
		l.fail(refuse("%s: tensor %q is packed with %d bits, config.json's quantization says %d", w.file, w.name, m.Bits, o.bits))
	case o.group != 0 && o.group != m.Group:
		l.fail(refuse("%s: tensor %q has groups of %d, config.json's quantization says %d", s.file, s.name, m.Group, o.group))
	}
}

// exactQuotient is a/b, or 0 where that is no whole number.
func exactQuotient(a, b int) int {
	if b == 0 || a%b != 0 {
		return 0
	}
	return a / b
}

// flatten gives the rows and columns of a matrix or of a stack of them.
func flatten(shape []int) (rows, cols int) {
	rows = 1
	for _, d := range shape[:len(shape)-1] {
		rows *= d
	}
	return rows, shape[len(shape)-1]
}
