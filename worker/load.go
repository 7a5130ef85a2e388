package worker

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"lilypad/protocol"
	demomodel "lilypad/scripts/demo-model"
	"lilypad/worker/checkpoint"
	"lilypad/worker/sample"
	"lilypad/worker/state"
	"lilypad/worker/tokenizer"
)

const (
	defaultContext  = 32768
	defaultParallel = 4
	mostParallel    = 64
)

// opened is a checkpoint in a backend, before the engine builds on it. close frees everything.
type opened struct {
	info      protocol.ModelInfo
	backend   state.Backend
	name      string // of the backend
	budget    int64  // bytes for states, enforced by the backend
	tokenizer *tokenizer.Tokenizer
	close     func() error
}

// opener opens what a request names; tests have their own.
type opener func(req protocol.LoadRequest, progress func(done, total int64)) (*opened, error)

// loaded is everything that serves requests. Only the compute thread touches backend, store, sampler and the buffers.
type loaded struct {
	info        protocol.ModelInfo
	backendName string
	budget      int64
	tokenizer   *tokenizer.Tokenizer
	thread      *thread

	backend  state.Backend
	store    *state.Store
	sampler  *sample.Sampler
	interval int       // tokens between checkpoints made in passing
	logits   []float32 // one row
	rows     []float32 // several, for scoring; made when first needed

	release func() error // frees the backend and the checkpoint, once, on the compute thread; then says how that went
}

// Load implements protocol.Engine. After a failed Load another may follow.
func (e *Engine) Load(ctx context.Context, req protocol.LoadRequest, progress func(protocol.LoadProgress) error) (protocol.ModelInfo, error) {
	over := make(chan struct{})
	if err := e.startLoading(over); err != nil {
		return protocol.ModelInfo{}, err
	}
	l, err := e.load(ctx, req, progress)
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(over)
	e.loading = nil
	if err != nil {
		e.phase = phaseNew
		return protocol.ModelInfo{}, err
	}
	e.phase, e.loaded = phaseLoaded, l
	return l.info, nil
}

func (e *Engine) startLoading(over chan struct{}) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return errDraining()
	}
	if e.phase != phaseNew {
		return protocol.Errorf(protocol.CodeInvalid, "a model is loaded or being loaded; start another worker for another model")
	}
	e.phase, e.loading = phaseLoading, over
	return nil
}

func (e *Engine) load(ctx context.Context, req protocol.LoadRequest, progress func(protocol.LoadProgress) error) (*loaded, error) {
	if err := checkLoad(req); err != nil {
		return nil, err
	}
	e.opt.Heartbeat.Begin(protocol.PhaseLoad, "")
	at := newSeat()
	o, err := e.openReporting(ctx, at, req, progress)
	if err != nil {
		close(at)
		e.opt.Heartbeat.Begin(protocol.PhaseStart, "")
		return nil, err
	}
	l := e.build(req, o, at)
	e.log.WithFields(map[string]any{
		"model": l.info.Name, "numerics": l.info.Numerics, "context": l.info.Context,
		"weight_bytes": l.info.WeightBytes, "state_budget": l.budget,
	}).Info("model loaded")
	return l, nil
}

// openReporting opens on the seat where the model will compute; progress, whose caller may be any goroutine, is called on
// this one. Opening can't be interrupted: an error of progress or the end of ctx is reported when it is over.
func (e *Engine) openReporting(ctx context.Context, at seat, req protocol.LoadRequest, progress func(protocol.LoadProgress) error) (*opened, error) {
	reports := make(chan protocol.LoadProgress)
	type result struct {
		o   *opened
		err error
	}
	done := make(chan result, 1)
	at <- func() {
		o, err := e.open(req, func(n, total int64) { reports <- protocol.LoadProgress{Done: n, Total: total} })
		done <- result{o, err}
	}
	var failed error
	for {
		select {
		case p := <-reports:
			e.opt.Heartbeat.SetBytes(p.Done)
			e.opt.Heartbeat.Progress()
			if failed == nil && progress != nil {
				failed = progress(p)
			}
		case r := <-done:
			if r.err != nil {
				return nil, r.err
			}
			if failed == nil {
				failed = ctx.Err()
			}
			if failed != nil {
				at.do(func() { _ = r.o.close() }) // nothing was computed; the failure is what the caller must hear
				return nil, failed
			}
			return r.o, nil
		}
	}
}

// build makes the serving parts over an opened model and starts the compute thread on the seat where it was opened.
func (e *Engine) build(req protocol.LoadRequest, o *opened, at seat) *loaded {
	l := &loaded{
		info: o.info, backendName: o.name, tokenizer: o.tokenizer, backend: o.backend, budget: o.budget,
		store:    state.NewStore(o.backend, o.budget),
		sampler:  sample.New(o.info.Vocab, o.tokenizer.Has),
		interval: checkpointInterval(o.backend),
		logits:   make([]float32, o.info.Vocab),
		release:  sync.OnceValue(o.close),
	}
	parallel := req.Parallel
	if parallel == 0 {
		parallel = defaultParallel
	}
	l.thread = newThread(at, parallel, e.opt, func() { e.publish(l) }, func() {
		l.store.Close()
		_ = l.release() // Unload, which waits for the thread, returns what it said
	})
	return l
}

// checkpointInterval is the number of tokens between checkpoints made in passing: so many that a checkpoint takes no more
// memory than the KV of the tokens that it saves, in steps of 1,024 and at least 2,048.
func checkpointInterval(b state.Backend) int {
	const step = 1024
	n := b.SnapshotBytes() / max(b.TokenBytes(), 1)
	return max(2*step, int(min(n, 1<<20)+step-1)/step*step)
}

func checkLoad(req protocol.LoadRequest) error {
	if err := checkBackend(req.Backend); err != nil {
		return err
	}
	if req.Context < 0 || req.StateBudget < 0 || req.Parallel < 0 || req.Parallel > mostParallel {
		return protocol.Errorf(protocol.CodeInvalid, "context %d, state budget %d, parallel %d: none may be negative, and parallel is at most %d",
			req.Context, req.StateBudget, req.Parallel, mostParallel)
	}
	if req.Chunk < 0 || req.Chunk > scheduledChunk || req.Chunk%512 != 0 {
		return protocol.Errorf(protocol.CodeInvalid, "chunks of %d tokens: want a multiple of 512 up to %d", req.Chunk, scheduledChunk)
	}
	return nil
}

// openModel is the opener of real checkpoints.
func (e *Engine) openModel(req protocol.LoadRequest, progress func(done, total int64)) (_ *opened, err error) {
	opt := checkpoint.Options{Quantize: req.Quantize, Progress: progress}
	var ck *checkpoint.Checkpoint
	if req.Model == "" {
		ck, err = checkpoint.OpenFS(demomodel.FS(), demomodel.Name, opt)
	} else {
		ck, err = checkpoint.Open(req.Model, opt)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			ck.Close()
		}
	}()
	tok, err := tokenizer.Parse(ck.Tokenizer)
	if err != nil {
		return nil, err
	}
	if tok.Size() > ck.Shape.Vocab {
		return nil, protocol.Errorf(protocol.CodeCheckpoint, "tokenizer.json has ids up to %d, but the weights only have rows for %d; one of them belongs to another model", tok.Size()-1, ck.Shape.Vocab)
	}
	if req.Context == 0 {
		req.Context = min(ck.Shape.Context, defaultContext)
	}
	if req.StateBudget == 0 {
		req.StateBudget = defaultBudget(physicalMemory(), ck.Bytes)
	}
	backend, name, err := OpenBackend(req.Backend, ck, BackendOptions{
		Context: req.Context, Limit: req.StateBudget, Threads: e.opt.Threads, Kernels: e.opt.Kernels, Chunk: req.Chunk, Tuning: req.Tuning,
		OnLayer: e.opt.Heartbeat.Layer, Progress: progress, Allowed: tok.Has, Log: e.log,
	})
	if err != nil {
		return nil, err
	}
	if name != cpuBackend { // its weights are copied: the mapping and what was quantised can go
		ck.Weights = checkpoint.Weights{}
		if err := ck.Close(); err != nil {
			return nil, errors.Join(err, backend.Close())
		}
	}
	return &opened{
		info: describe(ck, tok, backend, req), backend: backend, name: name, budget: req.StateBudget, tokenizer: tok,
		close: func() error {
			err := backend.Close()
			if closing := ck.Close(); err == nil {
				err = closing
			}
			return err
		},
	}, nil
}

// describe collects what the supervisor wants to know.
func describe(ck *checkpoint.Checkpoint, tok *tokenizer.Tokenizer, backend state.Backend, req protocol.LoadRequest) protocol.ModelInfo {
	g := ck.Generation
	sampling := protocol.Sampling{Temperature: g.Temperature, TopK: g.TopK, TopP: g.TopP, MinP: g.MinP}
	if !g.DoSample {
		sampling.Temperature = 0
	}
	return protocol.ModelInfo{
		Name: ck.Name, CheckpointID: ck.ID, Numerics: numerics(backend.Kernels(), req.Quantize, ck.ID), Context: req.Context,
		Vocab: ck.Shape.Vocab, ChatTemplate: ck.ChatTemplate, BOS: ck.BOS, EOS: ck.EOS, StopIDs: ck.StopIDs,
		Added: tok.Added(), Sampling: sampling, WeightBytes: ck.Bytes,
	}
}

// numerics is the numerics id: all that a token's bits depend on beside tokens and schedule.
func numerics(kernels string, quantize int, checkpointID string) string {
	parts := []string{kernels}
	if quantize != 0 {
		parts = append(parts, "q"+strconv.Itoa(quantize))
	}
	return strings.Join(append(parts, checkpointID), "-")
}
