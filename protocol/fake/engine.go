// Package fake is a scripted protocol.Engine in pure Go for tests of the supervisor: one token per byte, a pure function
// in place of a model, reuse and schedules as a real engine counts them, and faults on request. It must not import anything
// of ours but protocol.
package fake

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"lilypad/protocol"
)

// Options describe an engine. The zero value is a usable one.
type Options struct {
	Info      protocol.ModelInfo  // what Load answers; the zero value means DefaultInfo
	Next      Next                // the model; nil means Hash
	Chunk     int                 // tokens of one prefill chunk, 64 if 0
	Faults    Faults              // what goes wrong
	OnDeath   func()              // called once when the engine dies inside this process
	Heartbeat *protocol.Heartbeat // may be nil
	Process   bool                // the engine is a process of its own: death is real, a hang ignores its caller
	Unloaded  bool                // the engine waits for Load; otherwise it is loaded from the start
}

// Engine answers from a script.
type Engine struct {
	opt  Options
	dead chan struct{} // closed when the engine died inside this process
	die  sync.Once

	mu       sync.Mutex
	idle     *sync.Cond // signalled when active falls
	loaded   bool
	unloaded bool
	draining bool
	fired    bool // the fault happened
	emitted  int  // tokens emitted since the start, for Faults.DieAt
	stats    protocol.Stats
	cache    []*sequence
}

var _ protocol.Engine = (*Engine)(nil)

// New returns an engine.
func New(opt Options) *Engine {
	if opt.Info.Vocab == 0 {
		opt.Info = DefaultInfo()
	}
	if opt.Next == nil {
		opt.Next = Hash
	}
	if opt.Chunk == 0 {
		opt.Chunk = 64
	}
	e := &Engine{opt: opt, dead: make(chan struct{}), loaded: !opt.Unloaded}
	e.idle = sync.NewCond(&e.mu)
	return e
}

// DefaultInfo is a small model with ChatML markers, a template and a context of 4,096 tokens.
func DefaultInfo() protocol.ModelInfo {
	info := protocol.ModelInfo{
		Name: "fake", CheckpointID: "fake", Numerics: "fake/1", Context: 4096, Vocab: firstAdded + len(added), EOS: "<|im_end|>",
		ChatTemplate: "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
			"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
		StopIDs: []int32{ImEnd, EndOfText},
	}
	for i, text := range added {
		id := int32(firstAdded + i)
		info.Added = append(info.Added, protocol.AddedToken{ID: id, Content: text, Special: strings.HasPrefix(text, "<|")})
	}
	return info
}

// Die ends the engine as if its process were killed: running and later calls return protocol.ErrWorkerGone.
func (e *Engine) Die() {
	e.die.Do(func() {
		close(e.dead)
		if e.opt.OnDeath != nil {
			e.opt.OnDeath()
		}
	})
}

// alive returns the error of a call on an engine that died or has no model.
func (e *Engine) alive(needModel bool) error {
	select {
	case <-e.dead:
		return protocol.ErrWorkerGone
	default:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if needModel && (!e.loaded || e.unloaded) {
		return protocol.Errorf(protocol.CodeNotLoaded, "no model is loaded")
	}
	return nil
}

// Hello answers at once.
func (e *Engine) Hello(context.Context) (protocol.Hello, error) {
	if err := e.alive(false); err != nil {
		return protocol.Hello{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := protocol.Hello{Version: protocol.Version, PID: os.Getpid(), Backend: "fake", Loaded: e.loaded && !e.unloaded}
	if h.Loaded {
		h.Numerics = e.opt.Info.Numerics
	}
	return h, nil
}

// Load refuses a directory named "missing" with CodeCheckpoint and takes any other.
func (e *Engine) Load(ctx context.Context, req protocol.LoadRequest, progress func(protocol.LoadProgress) error) (protocol.ModelInfo, error) {
	if err := e.alive(false); err != nil {
		return protocol.ModelInfo{}, err
	}
	e.mu.Lock()
	again := e.loaded
	e.mu.Unlock()
	if again {
		return protocol.ModelInfo{}, protocol.Errorf(protocol.CodeInvalid, "a model is loaded already")
	}
	if strings.HasSuffix(req.Model, "missing") {
		return protocol.ModelInfo{}, protocol.Errorf(protocol.CodeCheckpoint, "%s: no config.json", req.Model)
	}
	const total = 4
	for done := range int64(total + 1) {
		e.beat(protocol.PhaseLoad, "")
		if err := e.at(ctx, PlaceLoad, ""); err != nil {
			return protocol.ModelInfo{}, err
		}
		if progress != nil {
			if err := progress(protocol.LoadProgress{Done: done, Total: total}); err != nil {
				return protocol.ModelInfo{}, err
			}
		}
	}
	e.mu.Lock()
	e.loaded = true
	e.mu.Unlock()
	e.beat(protocol.PhaseIdle, "")
	return e.opt.Info, nil
}

// Tokenize gives one token per byte; the added tokens' texts are one token each outside literal spans.
func (e *Engine) Tokenize(_ context.Context, spans []protocol.Span) ([]int32, error) {
	if err := e.alive(true); err != nil {
		return nil, err
	}
	return Tokenize(spans...), nil
}

// Detokenize gives the text of ids.
func (e *Engine) Detokenize(_ context.Context, ids []int32) (string, error) {
	if err := e.alive(true); err != nil {
		return "", err
	}
	return Text(ids), nil
}

// Stats answers at once.
func (e *Engine) Stats(context.Context) (protocol.Stats, error) {
	if err := e.alive(false); err != nil {
		return protocol.Stats{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Sessions = len(e.cache)
	for _, c := range e.cache {
		s.Checkpoints += len(c.points)
	}
	return s, nil
}

// Drain refuses new generations and waits for the running ones.
func (e *Engine) Drain(ctx context.Context) error {
	if err := e.alive(false); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		e.mu.Lock() // else the wake-up could fall between the check and the wait below
		defer e.mu.Unlock()
		e.idle.Broadcast()
	})()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	for e.stats.Active > 0 && ctx.Err() == nil {
		e.idle.Wait()
	}
	return ctx.Err()
}

// beat writes the heartbeat's phase; the page has one writer at a time.
func (e *Engine) beat(phase protocol.Phase, request string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opt.Heartbeat.Begin(phase, request)
}

// Unload forgets the model.
func (e *Engine) Unload(ctx context.Context) error {
	if err := e.alive(false); err != nil {
		return err
	}
	e.beat(protocol.PhaseUnload, "")
	if err := e.at(ctx, PlaceShutdown, ""); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unloaded, e.cache = true, nil
	return nil
}

// sleep waits d unless ctx or the engine ends.
func (e *Engine) sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-e.dead:
		}
	}
	select {
	case <-e.dead:
		return protocol.ErrWorkerGone
	default:
		return ctx.Err()
	}
}
