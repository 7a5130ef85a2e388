// Package gpu is the backend of Metal GPUs, real or simulated: weights, states and the plan of dispatches that computes a
// token with the kernels of metal/kernels. Activations are bf16, the residual and all sums fp32. It must not import another
// backend, tokenizers or the wire.
//
// Tokens of a prompt are computed in chunks, by kernels of their own; a few tokens, and those of an answer, one by one, by
// kernels that read weights for one token alone. So a token's bits depend on what it was computed together with.
package gpu

import (
	"errors"
	"fmt"
	"runtime"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/ref"
	"lilypad/protocol"
	"lilypad/worker/checkpoint"
	"lilypad/worker/model"
	"lilypad/worker/state"
)

const (
	defaultChunk = 2048
	mostChunk    = 4096 // of the kernels
)

// defaultContext bounds a sequence when neither the caller nor the model asks for less.
const defaultContext = 32768

// Options are the limits of a Model.
type Options struct {
	Context  int                     // most tokens of one sequence; 0 means the model's own, at most 32,768
	Limit    int64                   // bytes for all sequences and snapshots; 0 means no limit
	Threads  int                     // goroutines that copy weights; 0 means GOMAXPROCS
	OnPass   func(token int)         // called on the compute thread for each token of a chunk; may be nil
	Progress func(done, total int64) // hears of bytes of weights copied; may be nil
	Allowed  func(id int32) bool     // ids that may be sampled; nil means all
	Choices  kernels.Table           // measured ones, for this GPU; nil for none
	Chunk    int                     // most tokens computed at once, a multiple of 512 up to 4,096; 0 means 2,048
	Pressed  func() bool             // memory is short: chunks are of 512 tokens then; may be nil
	Empty    bool                    // leave the weights zero: for counting dispatches and bytes

	tries int                // of tests: choices that Tune measures for each matrix; 0 for all
	plant func(spec any) any // of tests: changes what dispatches are made of, not what they are compared with
	after func(*op) error    // of tests: called by Check after each dispatch
}

// Model is a checkpoint in a GPU's memory, and a state.Backend. All calls come from one locked OS thread, except Bytes.
type Model struct {
	device  *metal.Device
	kernels *kernels.Set
	shape   *model.Shape
	opt     Options

	attnLayers, deltaLayers int
	lengths                 []length

	table   kernels.Table // that kernels are chosen by
	weights *weights
	states  *states
	scratch scratch
	chunk   chunkMemory
	chunks  []*chunk // that bind it
	rope    rope
	plan    *plan // nil while the buffers that it binds change
	runner  runner
	decoded map[matrixKey]ref.Matrix // by Check
	rounded map[matrixKey]ref.Matrix // by CheckChunk
}

var _ state.Backend = (*Model)(nil)

// rope is the tables of rotary embedding.
type rope struct{ coarse, fine kernels.Ref }

// New copies ck to the device and compiles its kernels. The checkpoint may be closed afterwards; the device stays the
// caller's, to be closed after the Model.
func New(d *metal.Device, ck *checkpoint.Checkpoint, opt Options) (_ *Model, err error) {
	s := ck.Shape
	if opt.Context < 0 || opt.Limit < 0 || opt.Threads < 0 {
		return nil, fmt.Errorf("GPU backend: context %d, limit %d, threads %d: none may be negative", opt.Context, opt.Limit, opt.Threads)
	}
	if opt.Context == 0 {
		opt.Context = min(s.Context, defaultContext)
	}
	if opt.Context > s.Context {
		return nil, protocol.Errorf(protocol.CodeInvalid, "context %d, but the model was made for at most %d tokens", opt.Context, s.Context)
	}
	if opt.Chunk == 0 {
		opt.Chunk = defaultChunk
	}
	if opt.Chunk < 0 || opt.Chunk%shortChunk != 0 || opt.Chunk > mostChunk {
		return nil, protocol.Errorf(protocol.CodeInvalid, "chunks of %d tokens: want a multiple of %d up to %d", opt.Chunk, shortChunk, mostChunk)
	}
	if opt.Threads == 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	m := &Model{
		device: d, shape: &s, opt: opt, kernels: kernels.New(d),
		attnLayers: s.Count(model.Attention), deltaLayers: s.Count(model.DeltaNet),
	}
	m.use(opt.Choices)
	m.lengths = m.newLengths(opt.Context)
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.weights, err = newWeights(d, &s, &ck.Weights, opt.Threads, opt.Empty, opt.Progress); err != nil {
		return nil, err
	}
	if m.states, err = newStates(d, &s, opt.Context, opt.Limit); err != nil {
		return nil, err
	}
	if err = m.newScratch(); err != nil {
		return nil, err
	}
	if err = m.setAllowed(); err != nil {
		return nil, err
	}
	if err = m.newRope(); err != nil {
		return nil, err
	}
	if err = m.newRunner(); err != nil {
		return nil, err
	}
	for t := range tails { // so that a kernel that doesn't compile is an error now
		if _, err = m.recording(0, t); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// recording is the recording of a token at position, made when first asked for.
func (m *Model) recording(position int, t tail) (*metal.Recording, error) {
	if m.plan == nil {
		m.plan = newPlan(m)
	}
	return m.plan.recording(position, t)
}

// tokenOps is what recording records.
func (m *Model) tokenOps(position int, t tail) ([]op, error) {
	if m.plan == nil {
		m.plan = newPlan(m)
	}
	return m.plan.token(position, t)
}

// newRope makes the tables of rotary embedding.
func (m *Model) newRope() error {
	coarse, fine := kernels.RopeTables(m.shape.Rotary, m.shape.RopeTheta, m.opt.Context)
	for _, t := range []struct {
		ref    *kernels.Ref
		values []float32
	}{{&m.rope.coarse, coarse}, {&m.rope.fine, fine}} {
		if len(t.values) == 0 { // without RoPE, kernels still bind an entry
			t.values = []float32{1, 0}
		}
		b, err := m.device.NewBuffer(int64(4 * len(t.values)))
		if err != nil {
			return err
		}
		m.scratch.buffers = append(m.scratch.buffers, b)
		*t.ref = kernels.Ref{Buffer: b}
		if err := b.Write(bytesOf(t.values), 0); err != nil {
			return err
		}
	}
	return nil
}

// dropPlan frees what binds the buffers of states, which are about to be replaced. No pass is in flight.
func (m *Model) dropPlan() {
	if m.plan != nil {
		m.plan.close()
		m.plan = nil
	}
	for _, c := range m.chunks {
		closeOps(c.ops)
	}
	m.chunks = nil
}

// Kernels names all that sums depend on: the driver, the GPU's family, its cores and the measured choices, by which kernels
// split their work.
func (m *Model) Kernels() string {
	info := m.device.Info()
	return fmt.Sprintf("%s/apple%d-%dcores%s", info.Driver, info.Family, info.Cores, hash(m.table))
}

// ChunkIndependent is false: see the package comment.
func (m *Model) ChunkIndependent() bool { return false }

// Chunk is the most tokens that are computed at once.
func (m *Model) Chunk() int { return m.opt.Chunk }

// Bytes is the memory of all live sequences and snapshots, shared KV blocks counted once. Any goroutine may call it.
func (m *Model) Bytes() int64 { return m.states.memory.Used() }

// SnapshotBytes is the size of the conv windows and recurrent states of one snapshot; a sequence has two of each.
func (m *Model) SnapshotBytes() int64 { return m.states.slotBytes() }

// TokenBytes is the size of one token's keys and values in all attention layers.
func (m *Model) TokenBytes() int64 { return m.shape.KVBytes(2) }

// Vocab is the number of logits.
func (m *Model) Vocab() int { return m.shape.Vocab }

// WeightBytes is the device memory of the weights.
func (m *Model) WeightBytes() int64 { return m.weights.placer.bytes }

// Close frees everything but the device. It is safe to call twice.
func (m *Model) Close() error {
	err := m.closeRunner()
	m.dropPlan()
	m.dropChunk()
	m.scratch.close()
	if m.states != nil {
		m.states.close()
		m.states = nil
	}
	if m.weights != nil {
		m.weights.close()
		m.weights = nil
	}
	if m.kernels != nil {
		m.kernels.Close()
		m.kernels = nil
	}
	return err
}

// deviceError is what callers hear of a failed pass: the process can't go on with states that depend on it.
func deviceError(err error) error {
	if err == nil {
		return nil
	}
	var failed *metal.PassError
	if errors.As(err, &failed) {
		return protocol.Errorf(protocol.CodeDevice, "%v", err)
	}
	return err
}
