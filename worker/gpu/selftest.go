package gpu

import (
	"fmt"

	"lilypad/metal"
	"lilypad/worker/checkpoint"
	"lilypad/worker/model"
)

// Verdict is what a self-test says of one kind of dispatch.
type Verdict struct {
	Model, Kind string
	Checked     int
	Err         error // the first difference from the twin
}

// SelfTest computes tokens of small random models of all formats and of several shapes on d, each dispatch against its
// float32 twin, at lengths that take every route of attention up to some thousand tokens. It reports each kind of
// dispatch of each model; an error is one of the GPU, after which nothing is known.
func SelfTest(d *metal.Device, report func(Verdict)) error {
	for _, c := range selfTests() {
		if err := selfTest(d, c, report); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// selfTestModel is a random model and the lengths at which it is tested.
type selfTestModel struct {
	name    string
	ck      *checkpoint.Checkpoint
	lengths []int
}

func selfTest(d *metal.Device, c selfTestModel, report func(Verdict)) error {
	m, err := New(d, c.ck, Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	verdicts := map[string]*Verdict{}
	var kinds []string
	for _, n := range c.lengths {
		s, err := m.Place(n)
		if err != nil {
			return err
		}
		for i := range int32(2) {
			_, err := m.Check(s.sequence, 1+i, func(kind string, layer int, err error) {
				v := verdicts[kind]
				if v == nil {
					v = &Verdict{Model: c.name, Kind: kind}
					verdicts[kind], kinds = v, append(kinds, kind)
				}
				if v.Checked++; v.Err == nil && err != nil {
					v.Err = fmt.Errorf("position %d, layer %d: %w", n+int(i), layer, err)
				}
			})
			if err != nil {
				s.Close()
				return err
			}
		}
		s.Close()
	}
	for _, k := range kinds {
		report(*verdicts[k])
	}
	return nil
}

// selfTests are the models of the self-test.
func selfTests() []selfTestModel {
	random := func(name string, store storage, lengths []int, change func(s *model.Shape)) selfTestModel {
		ck := &checkpoint.Checkpoint{Name: name, Shape: small()}
		if change != nil {
			change(&ck.Shape)
		}
		fillShape(ck, store)
		return selfTestModel{name, ck, lengths}
	}
	dense := func(s *model.Shape) {
		s.Type, s.Experts, s.ExpertsPerToken, s.FFN, s.Tied, s.ValueHeads = "qwen3_5", 0, 0, 160, true, 2
		for i := range s.Layers {
			s.Layers[i].MoE = false
		}
	}
	large := func(s *model.Shape) { // heads as in Qwen3.6-35B-A3B
		s.Layers = s.Layers[1:3]
		s.Hidden, s.Heads, s.KVHeads, s.HeadDim, s.Rotary = 256, 16, 2, 256, 64
		s.KeyDim, s.ValueDim, s.ExpertFFN = 128, 128, 128
	}
	short, long := []int{0, 63}, []int{0, 300, 1100, 4200}
	return []selfTestModel{
		random("published format", published, short, nil),
		random("heads of the 35B", published, long, large),
		random("dense, bf16", float(checkpoint.BF16), short, dense),
		random("f16", float(checkpoint.F16), short, nil),
		random("f32, one value head for three", float(checkpoint.F32), short, func(s *model.Shape) { s.ValueHeads = 6 }),
		random("all formats", mixed(), short, nil),
	}
}

// small is a shape of the family.
func small() model.Shape {
	delta, attn := model.Layer{Mixer: model.DeltaNet, MoE: true}, model.Layer{Mixer: model.Attention, MoE: true}
	return model.Shape{
		Type: "qwen3_5_moe", Layers: []model.Layer{delta, delta, attn, delta, attn}, Hidden: 128, Vocab: 515, NormEps: 1e-6, Context: 8192,
		Heads: 4, KVHeads: 2, HeadDim: 64, Rotary: 16, RopeTheta: 1e6,
		KeyHeads: 2, ValueHeads: 4, KeyDim: 64, ValueDim: 64, Conv: 4,
		Experts: 8, ExpertsPerToken: 3, ExpertFFN: 64, SharedFFN: 128, NormTopK: true,
	}
}

func float(t checkpoint.DType) storage {
	return func(rows, cols int, _ bool) checkpoint.Matrix {
		return checkpoint.Matrix{Rows: rows, Cols: cols, Type: t}
	}
}

// mixed goes through all formats in turn, so that neighbours differ.
func mixed() storage {
	list := []storage{
		affine(2, 32, checkpoint.F16), affine(3, 64, checkpoint.BF16), affine(5, 32, checkpoint.F32), float(checkpoint.F16),
		affine(6, 128, checkpoint.BF16), affine(8, 64, checkpoint.F16), affine(4, 128, checkpoint.F32), float(checkpoint.BF16),
		affine(4, 32, checkpoint.BF16), affine(2, 64, checkpoint.BF16), affine(6, 32, checkpoint.F16),
	}
	next := 0
	return func(rows, cols int, gate bool) checkpoint.Matrix {
		m := list[next%len(list)](rows, cols, gate)
		next++
		if m.Type == checkpoint.Affine && cols%m.Group != 0 {
			return float(checkpoint.F32)(rows, cols, gate)
		}
		return m
	}
}
