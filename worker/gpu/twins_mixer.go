//go:build wip

package gpu

import (
	"lilypad/metal/kernels"
	"lilypad/metal/ref"
)

func (c *checker) delta(d kernels.Delta) []output {
	step := c.uints(d.Step, 4)
	channels, values := 2*d.KeyHeads*d.KeyDim+d.ValueHeads*d.ValueDim, d.ValueHeads*d.ValueDim
	window, size := (d.Taps-1)*channels, values*d.KeyDim
	at := func(slot uint32, n int) int64 { return (int64(slot)*int64(d.Layers) + int64(d.Layer)) * int64(n) }
	proj := func(first, n int) []float32 { return c.bfloats(d.Proj.At(2*int64(first)), n) }
	t := ref.Delta{
		KeyHeads: d.KeyHeads, ValueHeads: d.ValueHeads, KeyDim: d.KeyDim, ValueDim: d.ValueDim, Taps: d.Taps, Eps: d.Eps,
		QKV: proj(d.QKV, channels), Z: proj(d.Z, values), B: proj(d.B, d.ValueHeads), A: proj(d.A, d.ValueHeads),
		ConvW: c.floats(d.ConvW, d.Taps*channels), Decay: c.floats(d.Decay, d.ValueHeads), DtBias: c.floats(d.DtBias, d.ValueHeads),
		Gain: c.floats(d.Gain, d.ValueDim),
		Conv: c.bfloats(d.Conv.At(2*at(step[2], window)), window), Recurrent: c.floats(d.Recurrent.At(4*at(step[2], size)), size),
	}
	out := t.Advance()
	return []output{
		bfloats("outputs", d.Out, out), bfloats("window", d.Conv.At(2*at(step[3], window)), t.Conv),
		floats("state", d.Recurrent.At(4*at(step[3], size)), t.Recurrent),
	}
}
