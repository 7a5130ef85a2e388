package checkpoint

import (
	"encoding/json"
	"slices"

	"lilypad/worker/model"
)

// config is what we keep of config.json.
type config struct {
	shape   model.Shape
	quant   quantization
	stopIDs []int32 // eos_token_id of the top level, else of text_config
}

// families maps every model_type that runs to its family; the text-only exports have a suffix.
var families = map[string]string{
	"qwen3_5_moe": "qwen3_5_moe", "qwen3_5_moe_text": "qwen3_5_moe",
	"qwen3_5": "qwen3_5", "qwen3_5_text": "qwen3_5",
	"qwen3_next": "qwen3_next",
}

// topFields is the outer object of config.json. In the flat layout it is also the text model's.
type topFields struct {
	ModelType          string          `json:"model_type"`
	TextConfig         json.RawMessage `json:"text_config"`
	Tied               *bool           `json:"tie_word_embeddings"`
	EOS                idList          `json:"eos_token_id"`
	Quantization       json.RawMessage `json:"quantization"`
	QuantizationConfig json.RawMessage `json:"quantization_config"`
}

// textFields is the text model's object. A pointer is nil where the field is missing or null.
type textFields struct {
	ModelType string   `json:"model_type"`
	Hidden    *int     `json:"hidden_size"`
	Layers    *int     `json:"num_hidden_layers"`
	Interval  *int     `json:"full_attention_interval"`
	Types     []string `json:"layer_types"`
	Vocab     *int     `json:"vocab_size"`
	Tied      *bool    `json:"tie_word_embeddings"`
	Eps       *float64 `json:"rms_norm_eps"`
	Context   *int     `json:"max_position_embeddings"`
	EOS       idList   `json:"eos_token_id"`

	Act            *string `json:"hidden_act"`
	OutputGateType *string `json:"output_gate_type"`
	AttnOutputGate *bool   `json:"attn_output_gate"`
	AttentionBias  *bool   `json:"attention_bias"`
	SlidingWindow  *bool   `json:"use_sliding_window"`

	Heads   *int `json:"num_attention_heads"`
	KVHeads *int `json:"num_key_value_heads"`
	HeadDim *int `json:"head_dim"`
	ropeFields

	KeyHeads   *int `json:"linear_num_key_heads"`
	ValueHeads *int `json:"linear_num_value_heads"`
	KeyDim     *int `json:"linear_key_head_dim"`
	ValueDim   *int `json:"linear_value_head_dim"`
	Conv       *int `json:"linear_conv_kernel_dim"`

	FFN             *int  `json:"intermediate_size"`
	Experts         *int  `json:"num_experts"`
	ExpertsPerToken *int  `json:"num_experts_per_tok"`
	ExpertFFN       *int  `json:"moe_intermediate_size"`
	SharedFFN       *int  `json:"shared_expert_intermediate_size"`
	NormTopK        *bool `json:"norm_topk_prob"`
	SparseStep      *int  `json:"decoder_sparse_step"`
	MLPOnly         []int `json:"mlp_only_layers"`
}

// parseConfig reads config.json, nested (text_config) or flat. Its errors are sentences for a person.
func parseConfig(data []byte) (*config, error) {
	var top topFields
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, jsonRefusal("config.json", err)
	}
	family, ok := families[top.ModelType]
	if !ok {
		return nil, refuse("config.json: model_type is %q; Lilypad runs qwen3_5_moe, qwen3_5 and qwen3_next", top.ModelType)
	}
	inner := data
	if given(top.TextConfig) {
		inner = top.TextConfig
	}
	var text textFields
	if err := json.Unmarshal(inner, &text); err != nil {
		return nil, jsonRefusal("config.json", err)
	}
	if text.ModelType != "" && families[text.ModelType] != family {
		return nil, refuse("config.json: model_type is %q but text_config's is %q", top.ModelType, text.ModelType)
	}
	if text.Tied == nil {
		text.Tied = top.Tied
	}
	c := &config{stopIDs: top.EOS}
	if c.stopIDs == nil {
		c.stopIDs = text.EOS
	}
	var err error
	if c.shape, err = text.shape(family); err != nil {
		return nil, err
	}
	if c.quant, err = parseQuantization(top.Quantization, top.QuantizationConfig); err != nil {
		return nil, err
	}
	return c, checkIDs("config.json", c.stopIDs, c.shape.Vocab)
}

// The largest values that config.json may give; the known models stay far below, and products of them fit in int64.
const (
	maxLayers  = 1 << 10
	maxWidth   = 1 << 17
	maxHeads   = 1 << 10
	maxHeadDim = 1 << 12
	maxVocab   = 1 << 22
	maxContext = 1 << 26
	maxExperts = 1 << 13
	maxConv    = 16
)

// shape checks the fields and makes the shape of the given family.
func (t *textFields) shape(family string) (model.Shape, error) {
	var v values
	s := model.Shape{
		Type:    family,
		Hidden:  v.count("hidden_size", t.Hidden, maxWidth),
		Vocab:   v.count("vocab_size", t.Vocab, maxVocab),
		Context: v.count("max_position_embeddings", t.Context, maxContext),
		NormEps: float32(v.between("rms_norm_eps", t.Eps, 1e-12, 1e-1)),
		Tied:    t.Tied != nil && *t.Tied,

		Heads:   v.count("num_attention_heads", t.Heads, maxHeads),
		KVHeads: v.count("num_key_value_heads", t.KVHeads, maxHeads),
		HeadDim: v.count("head_dim", t.HeadDim, maxHeadDim),

		KeyHeads:   v.count("linear_num_key_heads", t.KeyHeads, maxHeads),
		ValueHeads: v.count("linear_num_value_heads", t.ValueHeads, maxHeads),
		KeyDim:     v.count("linear_key_head_dim", t.KeyDim, maxHeadDim),
		ValueDim:   v.count("linear_value_head_dim", t.ValueDim, maxHeadDim),
		Conv:       v.count("linear_conv_kernel_dim", t.Conv, maxConv),
	}
	v.divides("num_key_value_heads", s.KVHeads, "num_attention_heads", s.Heads)
	v.divides("linear_num_key_heads", s.KeyHeads, "linear_num_value_heads", s.ValueHeads)
	if v.err == nil && s.Conv < 2 {
		v.fail("linear_conv_kernel_dim is %d, want at least 2", s.Conv)
	}
	t.checkVariants(&v)
	t.rope(&v, &s)
	t.layers(&v, &s)
	return s, v.err
}

// checkVariants refuses the switches that would change the forward pass.
func (t *textFields) checkVariants(v *values) {
	if t.Act != nil && *t.Act != "silu" {
		v.fail("hidden_act is %q, want \"silu\"", *t.Act)
	}
	if t.OutputGateType != nil && !slices.Contains([]string{"swish", "silu"}, *t.OutputGateType) {
		v.fail("output_gate_type is %q, want \"swish\" or \"silu\"", *t.OutputGateType)
	}
	if t.AttnOutputGate != nil && !*t.AttnOutputGate {
		v.fail("attn_output_gate is false, want true")
	}
	if t.AttentionBias != nil && *t.AttentionBias {
		v.fail("attention_bias is true, want false")
	}
	if t.SlidingWindow != nil && *t.SlidingWindow {
		v.fail("use_sliding_window is true, want false")
	}
}

// layers fills Layers and the widths of the MLPs that they need.
func (t *textFields) layers(v *values, s *model.Shape) {
	n := v.count("num_hidden_layers", t.Layers, maxLayers)
	if v.err != nil {
		return
	}
	s.Layers = make([]model.Layer, n)
	t.mixers(v, s)
	t.sparse(v, s)
	dense := slices.ContainsFunc(s.Layers, func(l model.Layer) bool { return !l.MoE })
	if dense {
		s.FFN = v.count("intermediate_size", t.FFN, maxWidth)
	}
}

// mixers says which layers are attention. layer_types wins over full_attention_interval, whose default is 4 as in
// transformers' configuration classes.
func (t *textFields) mixers(v *values, s *model.Shape) {
	if t.Types == nil {
		interval := 4
		if t.Interval != nil {
			interval = v.count("full_attention_interval", t.Interval, maxLayers)
		}
		for i := range s.Layers {
			s.Layers[i].Mixer = model.DeltaNet
			if v.err == nil && (i+1)%interval == 0 {
				s.Layers[i].Mixer = model.Attention
			}
		}
	} else {
		if len(t.Types) != len(s.Layers) {
			v.fail("layer_types has %d entries, num_hidden_layers is %d", len(t.Types), len(s.Layers))
			return
		}
		for i, name := range t.Types {
			switch name {
			case "linear_attention":
				s.Layers[i].Mixer = model.DeltaNet
			case "full_attention":
				s.Layers[i].Mixer = model.Attention
			default:
				v.fail("layer_types[%d] is %q, want \"linear_attention\" or \"full_attention\"", i, name)
				return
			}
		}
	}
	if s.Count(model.DeltaNet) == 0 {
		v.fail("none of the %d layers is linear_attention", len(s.Layers))
	}
}

// sparse says which layers are MoE and fills the expert fields. As in transformers, layer i is sparse if it is not in
// mlp_only_layers and (i+1) is a multiple of decoder_sparse_step.
func (t *textFields) sparse(v *values, s *model.Shape) {
	if s.Type == "qwen3_5" {
		if t.Experts != nil && *t.Experts != 0 {
			v.fail("num_experts is %d, want 0 for the dense model_type qwen3_5", *t.Experts)
		}
		return
	}
	if s.Type == "qwen3_next" && t.Experts != nil && *t.Experts == 0 {
		return
	}
	s.Experts = v.count("num_experts", t.Experts, maxExperts)
	s.ExpertsPerToken = v.count("num_experts_per_tok", t.ExpertsPerToken, maxExperts)
	s.ExpertFFN = v.count("moe_intermediate_size", t.ExpertFFN, maxWidth)
	s.SharedFFN = v.count("shared_expert_intermediate_size", t.SharedFFN, maxWidth)
	if v.err == nil && s.ExpertsPerToken > s.Experts {
		v.fail("num_experts_per_tok is %d, more than num_experts %d", s.ExpertsPerToken, s.Experts)
	}
	s.NormTopK = t.NormTopK == nil || *t.NormTopK
	if s.Type == "qwen3_5_moe" && !s.NormTopK {
		v.fail("norm_topk_prob is false, want true for qwen3_5_moe")
	}
	step := 1
	if t.SparseStep != nil {
		step = v.count("decoder_sparse_step", t.SparseStep, maxLayers)
	}
	if v.err != nil {
		return
	}
	for i := range s.Layers {
		s.Layers[i].MoE = (i+1)%step == 0
	}
	for _, i := range t.MLPOnly {
		if i < 0 || i >= len(s.Layers) {
			v.fail("mlp_only_layers names layer %d of %d", i, len(s.Layers))
			return
		}
		s.Layers[i].MoE = false
	}
}
