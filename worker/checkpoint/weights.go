// Package checkpoint opens a model directory: it maps the safetensors files, reads config.json and the files beside the
// weights, brings every tensor of the text model under one layout, and refuses what can't run with one sentence. Of our
// packages it may import only protocol and worker/model.
package checkpoint

import "lilypad/worker/model"

// DType is the element type of stored numbers.
type DType int

// The element types that weights are stored in.
const (
	BF16 DType = iota + 1
	F16
	F32
	Affine // packed unsigned codes with a scale and a bias per group (MLX)
)

// Matrix is one linear module: y = x Wᵀ with W [Rows, Cols], row-major. It is a view of the mapped file wherever the
// file's layout allows; Data has no alignment guarantee.
type Matrix struct {
	Rows, Cols int
	Type       DType
	Data       []byte // Affine: rows of Cols*Bits/8 bytes, code i in bits [i*Bits, (i+1)*Bits) little-endian; else Cols elements a row

	// Affine only: w = scale*code + bias, one pair for each Group consecutive columns.
	Bits, Group    int    // Bits 2,3,4,5,6,8; Group 32,64,128
	ScaleType      DType  // BF16, F16 or F32, of both Scales and Biases
	Scales, Biases []byte // [Rows, Cols/Group]
}

// Weights is every tensor of the text model under one layout, whatever layout the files had. Norm vectors are gains: the
// +1 of the zero-centred ones is applied.
type Weights struct {
	Embed  Matrix // [Vocab, Hidden]
	Head   Matrix // [Vocab, Hidden]; the same view as Embed when tied
	Norm   []float32
	Layers []LayerWeights
}

// LayerWeights has exactly one of Attn and Delta, and exactly one of MoE and MLP, as model.Shape.Layers says.
type LayerWeights struct {
	InputNorm, PostNorm []float32 // [Hidden]
	Attn                *AttnWeights
	Delta               *DeltaWeights
	MoE                 *MoEWeights
	MLP                 *MLPWeights
}

// AttnWeights is a gated attention mixer. Q has for each head HeadDim query rows, then HeadDim gate rows.
type AttnWeights struct {
	Q            Matrix // [Heads*2*HeadDim, Hidden]
	K, V         Matrix // [KVHeads*HeadDim, Hidden]
	O            Matrix // [Hidden, Heads*HeadDim]
	QNorm, KNorm []float32
}

// DeltaWeights is a Gated DeltaNet mixer in the layout of qwen3_5 (qwen3_next's fused rows are permuted at load).
type DeltaWeights struct {
	QKV    Matrix    // [ConvChannels, Hidden]: all q, all k, all v, head-major
	Z      Matrix    // [ValueHeads*ValueDim, Hidden]
	B, A   Matrix    // [ValueHeads, Hidden]
	Out    Matrix    // [Hidden, ValueHeads*ValueDim]
	Conv   []float32 // [ConvChannels, Conv]; the last tap multiplies the current token
	ALog   []float32 // [ValueHeads]
	DtBias []float32 // [ValueHeads]
	Norm   []float32 // [ValueDim], plain gain
}

// MLPWeights is down(silu(gate x) * up x).
type MLPWeights struct{ Gate, Up, Down Matrix }

// MoEWeights is the sparse block: router, routed experts, and the shared expert with its scalar gate.
type MoEWeights struct {
	Router     Matrix       // [Experts, Hidden]
	Experts    []MLPWeights // one per expert
	Shared     MLPWeights
	SharedGate Matrix // [1, Hidden]
}

// Checkpoint is an opened, checked model directory. Matrices may point into its mapping: they are valid until Close.
type Checkpoint struct {
	Name    string // base name of the directory, or "lilypad-demo"
	ID      string // see protocol.ModelInfo.CheckpointID
	Shape   model.Shape
	Weights Weights
	Bytes   int64 // of all weights, as held

	Tokenizer    []byte // tokenizer.json
	ChatTemplate string
	BOS, EOS     string
	StopIDs      []int32
	Generation   Generation

	closers []func() error
}

// Generation is what generation_config.json says of sampling; fields it lacks have Hugging Face's defaults.
type Generation struct {
	DoSample          bool
	Temperature, TopP float32
	TopK              int
	MinP              float32
}
