// Package cpu is the CPU backend: the forward pass of the model family in fp32 over weights as they are stored, embedded
// default and numeric reference of the other backends. It must not import another backend, tokenizers or the wire.
//
// Three rules hold everywhere and make a token's bits independent of how its prompt was cut into chunks and of the number
// of threads: one summation order for each output element whatever the number of rows, threads split outputs and never a
// sum, and every product is rounded before it is added (float32(a*b)), so that no compiler fuses one call site only.
package cpu

import (
	"fmt"
	"math"
	"runtime"

	"lilypad/protocol"
	"lilypad/worker/checkpoint"
	"lilypad/worker/model"
	"lilypad/worker/state"
)

// defaultContext bounds a sequence when neither the caller nor the model asks for less.
const defaultContext = 32768

// Options are the limits of a Model.
type Options struct {
	Context int             // most tokens of one sequence; 0 means the model's own, at most 32,768
	Limit   int64           // bytes for all sequences and snapshots; 0 means no limit
	Threads int             // threads that compute, the caller's included; 0 means GOMAXPROCS
	Kernels string          // kernel set, one of KernelSets; empty means the preferred one
	OnLayer func(layer int) // called on the compute thread before each layer; may be nil
}

// Model is a checkpoint made ready to compute, and a state.Backend. All calls come from one thread, except Bytes.
type Model struct {
	shape   *model.Shape
	weights *checkpoint.Weights
	opt     Options
	kernels *kernels

	layers      []layer
	attnLayers  int
	deltaLayers int
	rope        []float64 // [Rotary/2] angle per position, radians
	headStride  int       // padded(HeadDim): floats between rows of K and of V

	memory state.Ledger
	pool   *pool
	pass   *pass
}

var _ state.Backend = (*Model)(nil)

// layer adds to a layer's weights what is derived from them once.
type layer struct {
	*checkpoint.LayerWeights
	index int       // among the layers with the same mixer
	taps  []float32 // [Conv, ConvChannels]: DeltaWeights.Conv transposed
	decay []float32 // [ValueHeads]: -exp(ALog)
}

// New prepares ck for computing; ck must stay open until the Model is closed.
func New(ck *checkpoint.Checkpoint, opt Options) (*Model, error) {
	s := &ck.Shape
	if opt.Context < 0 || opt.Limit < 0 || opt.Threads < 0 {
		return nil, fmt.Errorf("cpu backend: context %d, limit %d, threads %d: none may be negative", opt.Context, opt.Limit, opt.Threads)
	}
	if opt.Context == 0 {
		opt.Context = min(s.Context, defaultContext)
	}
	if opt.Context > s.Context {
		return nil, protocol.Errorf(protocol.CodeInvalid, "context %d, but the model was made for at most %d tokens", opt.Context, s.Context)
	}
	if opt.Threads == 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	set, err := kernelsNamed(opt.Kernels)
	if err != nil {
		return nil, err
	}
	m := &Model{kernels: set, shape: s, weights: &ck.Weights, opt: opt, headStride: padded(s.HeadDim)}
	m.memory.Limit = opt.Limit
	for i := range ck.Weights.Layers {
		m.layers = append(m.layers, m.newLayer(&ck.Weights.Layers[i]))
	}
	for i := 0; i < s.Rotary; i += 2 {
		m.rope = append(m.rope, math.Pow(s.RopeTheta, -float64(i)/float64(s.Rotary)))
	}
	m.pool = newPool(opt.Threads)
	m.pass = newPass(m)
	return m, nil
}

func (m *Model) newLayer(w *checkpoint.LayerWeights) layer {
	l := layer{LayerWeights: w}
	if w.Delta == nil {
		l.index = m.attnLayers
		m.attnLayers++
		return l
	}
	l.index = m.deltaLayers
	m.deltaLayers++
	channels, taps := m.shape.ConvChannels(), m.shape.Conv
	l.taps = make([]float32, channels*taps)
	for c := range channels {
		for j := range taps {
			l.taps[j*channels+c] = w.Delta.Conv[c*taps+j]
		}
	}
	for _, a := range w.Delta.ALog {
		l.decay = append(l.decay, -float32(math.Exp(float64(a))))
	}
	return l
}

// Kernels names the kernel set. The architecture is part of it because package math isn't the same code everywhere.
func (m *Model) Kernels() string { return "cpu/" + m.kernels.name + "-" + runtime.GOARCH }

// ChunkIndependent is true: see the package comment.
func (m *Model) ChunkIndependent() bool { return true }

// Chunk is the most tokens that are worth computing at once.
func (m *Model) Chunk() int { return 128 }

// New makes an empty sequence.
func (m *Model) New() (state.Sequence, error) {
	s := &sequence{m: m}
	if err := s.allocate(); err != nil {
		return nil, err
	}
	return s, nil
}

// Bytes is the memory of all live sequences and snapshots, shared KV blocks counted once. Any goroutine may call it.
func (m *Model) Bytes() int64 { return m.memory.Used() }

// SnapshotBytes is the size of the conv windows and recurrent states of one sequence.
func (m *Model) SnapshotBytes() int64 { return int64(m.convFloats()+m.recurrentFloats()) * 4 }

// TokenBytes is the size of one token's keys and values in all attention layers.
func (m *Model) TokenBytes() int64 {
	return int64(m.attnLayers) * int64(m.shape.KVHeads) * 2 * int64(m.headStride) * 4
}

// Close stops the worker goroutines. It is safe to call twice.
func (m *Model) Close() error {
	m.pool.close()
	return nil
}

// convFloats is the length of a sequence's conv windows, fp32 [deltaLayers, Conv-1, ConvChannels], oldest column first.
func (m *Model) convFloats() int {
	if m.deltaLayers == 0 {
		return 0
	}
	return m.deltaLayers * (m.shape.Conv - 1) * m.shape.ConvChannels()
}

// recurrentFloats is the length of a sequence's recurrent states, fp32 [deltaLayers, ValueHeads] and then blocks; see deltaCols.
func (m *Model) recurrentFloats() int {
	return m.deltaLayers * m.shape.ValueHeads * m.shape.ValueDim * m.shape.KeyDim
}
