// Package model holds the shapes of a checkpoint: layer kinds, widths, and the byte and FLOP arithmetic that follows from
// them. It does no maths on weights and must not import anything of ours.
package model

// Mixer is the kind of a layer's token mixer.
type Mixer int

// The mixers of the family.
const (
	DeltaNet  Mixer = 1 // Gated DeltaNet: conv window and recurrent state
	Attention Mixer = 2 // gated full attention: KV cache
)

// Layer says what one layer is made of.
type Layer struct {
	Mixer Mixer
	MoE   bool // false: a dense MLP of width Shape.FFN
}

// Shape is config.json of the text model, checked. Counts are elements, never bytes.
type Shape struct {
	Type    string  // model_type of the family: "qwen3_5_moe", "qwen3_5", "qwen3_next"
	Layers  []Layer // one per decoder layer
	Hidden  int     // H
	Vocab   int     // rows of the embedding and the head
	NormEps float32
	Context int  // max_position_embeddings
	Tied    bool // the head is the embedding

	Heads, KVHeads, HeadDim int     // gated attention; query head h reads KV head h / (Heads/KVHeads)
	Rotary                  int     // leading dims of each head that RoPE turns, even
	RopeTheta               float64 //

	KeyHeads, ValueHeads int // DeltaNet: value head h uses key head h / (ValueHeads/KeyHeads)
	KeyDim, ValueDim     int // per head
	Conv                 int // taps of the causal depthwise convolution

	Experts, ExpertsPerToken int  // 0 experts: dense model
	ExpertFFN, SharedFFN     int  // widths of a routed and of the shared expert
	NormTopK                 bool // renormalise the top-k router weights
	FFN                      int  // width of a dense MLP layer
}

// ConvChannels is the number of channels of the DeltaNet convolution: all q, then all k, then all v.
func (s *Shape) ConvChannels() int { return 2*s.KeyHeads*s.KeyDim + s.ValueHeads*s.ValueDim }

// Count returns the number of layers with the given mixer.
func (s *Shape) Count(m Mixer) int {
	n := 0
	for _, l := range s.Layers {
		if l.Mixer == m {
			n++
		}
	}
	return n
}
