package checkpoint

import (
	"fmt"
	"slices"

	"lilypad/worker/model"
)

// detectLayout decides once whether the files are Hugging Face's own ("raw"), whose zero-centred norms store w where the
// gain is 1+w. The reliable sign is conv1d: [channels, 1, taps] is raw, [channels, taps, 1] was converted by MLX, which
// also stores gains. For qwen3_next it is experts that MLX has not stacked, as in mlx-lm.
func (l *loader) detectLayout() error {
	s := l.shape
	var first *tensor
	stacked, split := false, false
	for i, layer := range s.Layers {
		split = split || l.has(fmt.Sprintf("layers.%d.mlp.experts.0.up_proj.weight", i))
		stacked = stacked || l.has(fmt.Sprintf("layers.%d.mlp.switch_mlp.up_proj.weight", i))
		if layer.Mixer != model.DeltaNet {
			continue
		}
		t := l.tensors[fmt.Sprintf("layers.%d.linear_attn.conv1d.weight", i)]
		if t == nil {
			continue // reported as missing by assemble
		}
		raw := slices.Equal(t.shape, []int{s.ConvChannels(), 1, s.Conv})
		if !raw && !slices.Equal(t.shape, []int{s.ConvChannels(), s.Conv, 1}) {
			return refuse("%s: tensor %q has the shape %v, want [%d 1 %d] or [%[4]d %[5]d 1]", t.file, t.name, t.shape, s.ConvChannels(), s.Conv)
		}
		if first == nil {
			first, l.raw = t, raw
		} else if raw != l.raw {
			return refuse("%s: tensor %q has the shape %v, but %q has %v", t.file, t.name, t.shape, first.name, first.shape)
		}
	}
	if s.Type == "qwen3_next" {
		l.raw = split || l.raw && !stacked
	}
	return nil
}

// gain takes the weight of a zero-centred norm as a gain: +1 in fp32 for raw files. linear_attn.norm is no such norm.
func (l *loader) gain(name string, n int) []float32 {
	v := l.vector(name, n)
	if l.raw {
		for i := range v {
			v[i]++
		}
	}
	return v
}

// The plausible mean of all input_layernorm gains. Trained checkpoints have about 1 (0.97 reported for the 35B); a
// missing +1 gives about 0 and one too many about 2, so the bounds lie halfway.
const (
	minGain = 0.5
	maxGain = 1.5
)

// checkGains refuses norms that were shifted twice or never, which would load and speak nonsense.
func (l *loader) checkGains(w *Weights) error {
	var sum, n float64
	for _, lw := range w.Layers {
		for _, g := range lw.InputNorm {
			sum += float64(g)
			n++
		}
	}
	mean := sum / n
	if mean >= minGain && mean <= maxGain {
		return nil
	}
	return refuse("%s: the tensors %slayers.*.input_layernorm.weight have the mean gain %.3f, want %g to %g: the files were converted with the norms' +1 missing or applied twice",
		l.file, l.prefix, mean, minGain, maxGain)
}
