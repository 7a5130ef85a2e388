// Package generate runs one generation that outlives its worker: it keeps the tokens and how they were computed, and when
// the worker dies it replays them on the next one and goes on. It also turns tokens into reasoning and content, with stop
// strings. It must not know HTTP, and it starts no process.
package generate

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"time"

	"lilypad/protocol"
	"lilypad/supervisor/chat"
	"lilypad/supervisor/process"
)

// Source hands out the worker that serves now. It waits while there is none; its errors are final. process.Manager is one.
type Source interface {
	Worker(ctx context.Context) (*process.Worker, error)
}

// Request is one generation.
type Request struct {
	ID          string            // names the request in the heartbeat page and in logs
	Tokens      []int32           // prompt
	MaxTokens   int               // new tokens at most; 0 means until the context is full
	Sampling    protocol.Sampling // with a seed, see NewSeed
	Stop        []string          // none empty; matched in content only
	Checkpoints []int             // positions in the prompt where a state is worth keeping, ascending
	Split       *chat.Split       // tells reasoning from content; used by this request alone
	KeepAlive   time.Duration     // an Update at least this often while there is progress; 0 sends none
}

// Phase says what a generation is doing, for a person who waits.
type Phase string

// The phases of a generation.
const (
	Queued     Phase = "queued"     // no worker has begun
	Prefill    Phase = "prefill"    // the prompt is being computed
	Decode     Phase = "decode"     // tokens are coming
	Recovering Phase = "recovering" // the worker died; the next one has not reached a new token
)

// Update is what happened since the last one. Everything that waits for a slow reader is merged into one Update. One with
// neither Begin nor text is a sign of life.
type Update struct {
	Begin     *Begin // once
	Reasoning string
	Content   string // follows Reasoning
	Phase     Phase
}

// Begin tells how the first worker began.
type Begin struct {
	Incarnation int
	Cached      int    // prompt tokens taken from a cached state
	Miss        string // why not more, see protocol.Started
}

// Finish is the reason why a generation ended.
type Finish string

// The reasons of Result.
const (
	Stop   Finish = "stop"   // a stop token or a stop string
	Length Finish = "length" // MaxTokens, or the context is full
)

// Result sums up a finished generation. The client got Tokens tokens; work repeated in a recovery is only in Replayed.
type Result struct {
	Begin       Begin
	Finish      Finish
	Tokens      int // sampled
	Reasoning   int // of these, spent on reasoning
	Incarnation int // of the worker that ended it
	Recoveries  []Recovery
	Replayed    int // tokens computed again
}

// Recovery is one replay.
type Recovery struct {
	Cause       process.Cause
	Incarnation int  // of the worker that took over
	Tokens      int  // sampled when the old one died
	Exact       bool // the same arithmetic in the same schedule: the rest is what it would have been
}

// firstSign is when a client hears of a generation that has not begun.
const firstSign = time.Second

// Run generates and calls sink, on this goroutine, with what is new; sink's error ends the generation. A sink that takes its
// time never holds the worker up. When ctx ends the worker stops within one step and Run returns context.Cause(ctx).
// Other errors are *Error.
func Run(ctx context.Context, workers Source, req Request, sink func(Update) error) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	g := newGeneration(workers, req)
	ended := make(chan error, 1)
	go func() { ended <- g.run(ctx) }()
	stop := func() { cancel(); <-ended }

	var silence <-chan time.Time // nil without keepalive
	var timer *time.Timer
	if req.KeepAlive > 0 {
		timer = time.NewTimer(min(firstSign, req.KeepAlive))
		defer timer.Stop()
		silence = timer.C
	}
	for {
		select {
		case <-g.news.wake:
			u := g.news.take()
			if u.Begin == nil && u.Reasoning == "" && u.Content == "" {
				continue
			}
			if err := sink(u); err != nil {
				stop()
				return Result{}, err
			}
		case <-silence:
			if phase, alive := g.news.alive(); alive {
				if err := sink(Update{Phase: phase}); err != nil {
					stop()
					return Result{}, err
				}
			}
		case err := <-ended:
			cancel()
			if u := g.news.take(); u.Begin != nil || u.Reasoning != "" || u.Content != "" {
				if err := sink(u); err != nil {
					return Result{}, err
				}
			}
			return g.result, err
		}
		if timer != nil {
			timer.Reset(req.KeepAlive)
		}
	}
}

// NewSeed draws the seed of a generation that came without one: 53 bits, which every JSON reader keeps exact, so that it can
// be sent back to repeat the answer.
func NewSeed() uint64 {
	var b [8]byte
	_, _ = crand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return binary.LittleEndian.Uint64(b[:]) >> 11
}
