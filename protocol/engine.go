// Package protocol is the contract between supervisor and worker: the Engine interface, its types and errors, the wire
// form (engine.proto), the go-plugin handshake and the adapters of both sides, and the heartbeat page. It is token-level:
// text crosses it once (Tokenize), from then on only token ids go in. It must not import anything of ours.
package protocol

import "context"

// Engine holds one loaded checkpoint and the states computed with it. The worker implements it, the gRPC client
// implements it over the process boundary, and protocol/fake implements it from a script; callers can't tell them apart.
//
// Every method may return *Error; the gRPC client returns an error matching ErrWorkerGone when the process died
// during the call. Callbacks run on the caller's goroutine and an error from one ends the call with that error.
type Engine interface {
	// Hello identifies the engine. It answers at once, also before and during Load.
	Hello(ctx context.Context) (Hello, error)
	// Load opens a checkpoint, calling progress as bytes are read, and returns when the engine can generate. A second
	// Load is an error of CodeInvalid.
	Load(ctx context.Context, req LoadRequest, progress func(LoadProgress) error) (ModelInfo, error)
	// Tokenize turns rendered text into ids. Added tokens are matched only in text that is not literal; the split of a
	// text into spans changes nothing else.
	Tokenize(ctx context.Context, spans []Span) ([]int32, error)
	// Detokenize gives the text of ids, with U+FFFD for bytes that are no UTF-8.
	Detokenize(ctx context.Context, ids []int32) (string, error)
	// Generate computes what is missing of req.Tokens and then samples. It calls emit for each Event in order; the last
	// one carries Done. It returns nil after Done, and ctx's error soon (one decode step or prefill chunk) after ctx ends;
	// what was computed stays cached.
	Generate(ctx context.Context, req GenerateRequest, emit func(Event) error) error
	// Score computes teacher-forced predictions: for each position p in [req.From, len(req.Tokens)] the distribution of
	// the token at p given Tokens[:p].
	Score(ctx context.Context, req ScoreRequest, emit func(ScoreStep) error) error
	// Stats reports memory and counters. It answers at once.
	Stats(ctx context.Context) (Stats, error)
	// Drain refuses new requests from now on and waits until the running ones are done or ctx ends.
	Drain(ctx context.Context) error
	// Unload frees states and weights. Afterwards only Hello and Stats answer.
	Unload(ctx context.Context) error
}

// Hello says who answers.
type Hello struct {
	Version  int    // protocol version, see Version
	PID      int    // process id of the engine
	Backend  string // "cpu", "metal", "fake"
	Loaded   bool
	Numerics string // numerics id (backend, kernel set, tuning hash, checkpoint id); empty until loaded
}

// TuningFile is the name, in the data directory, of the file that lilypad tune writes for LoadRequest.Tuning.
const TuningFile = "tuning.json"

// LoadRequest names a checkpoint.
type LoadRequest struct {
	Model       string // directory; empty for the embedded demo checkpoint
	Backend     string // "cpu"; empty lets the worker choose
	Quantize    int    // 4 or 8 quantises unquantised linear modules while loading (MLX affine, groups of 64); 0 runs them as stored
	Context     int    // most tokens of one sequence; 0 means the model's own, at most 32,768
	StateBudget int64  // bytes for states and their checkpoints; 0 lets the worker choose
	Parallel    int    // generations that interleave at once; 0 means 4
	Chunk       int    // most tokens of a prompt that a GPU computes at once, a multiple of 512 up to 4,096; 0 lets the worker choose
	Tuning      string // file of measured choices of kernels, for a GPU; one that is missing or doesn't fit is not used
}

// LoadProgress counts checkpoint bytes made ready.
type LoadProgress struct{ Done, Total int64 }

// ModelInfo is what the supervisor needs to know of a loaded checkpoint; it never reads the checkpoint's files itself.
type ModelInfo struct {
	Name         string       // directory name, or "lilypad-demo"
	CheckpointID string       // SHA-256 of config, tokenizer, shard headers, sizes and sampled blocks, hex
	Numerics     string       // numerics id
	Context      int          // most tokens of one sequence
	Vocab        int          // rows of the head; ids without a token are never sampled
	ChatTemplate string       // Jinja source; empty when the checkpoint has none
	BOS, EOS     string       // texts of tokenizer_config's bos_token and eos_token, empty when null
	StopIDs      []int32      // union of generation_config, config and tokenizer_config, ascending
	Added        []AddedToken // added tokens by ascending id
	Sampling     Sampling     // defaults of generation_config.json; Temperature 0 if it says do_sample false
	WeightBytes  int64
}

// AddedToken is one entry of tokenizer.json's added_tokens.
type AddedToken struct {
	ID      int32
	Content string
	Special bool
}

// Span is a piece of rendered text. In a Literal span added tokens stay ordinary text.
type Span struct {
	Text    string
	Literal bool
}

// Segment says how a run of tokens was (or is to be) computed.
type Segment struct {
	Kind SegmentKind
	N    int // Prefill: one chunk of N tokens; Decode: N steps of one token each
}

// SegmentKind tells the two ways in which tokens are computed.
type SegmentKind int

// The kinds of Segment.
const (
	Prefill SegmentKind = 1
	Decode  SegmentKind = 2
)

// Sampling chooses the next token from logits in Hugging Face's order: temperature, top-k, top-p, min-p, draw.
type Sampling struct {
	Temperature float32 // 0 is greedy, and the rest is ignored
	TopK        int     // 0 keeps all
	TopP        float32 // 1 (or 0) keeps all
	MinP        float32 // 0 keeps all
	Seed        uint64  // key of Philox4x32-10
	Choice      uint32  // index of the choice of one request (n > 1), third word of the counter
}

// GenerateRequest asks for tokens after Tokens. A generation is a pure function of (checkpoint, backend, Tokens, how they
// were computed, Sampling): the random number for a token depends only on seed, choice and its absolute position, so
// a replay sends the prompt and the tokens already emitted as Tokens.
type GenerateRequest struct {
	ID          string // names the request in the heartbeat page and in logs
	Tokens      []int32
	Prompt      int       // Tokens[Prompt:] were generated before (replay); only the detokeniser looks at this
	Schedule    []Segment // how to compute a prefix of Tokens; the rest is prefilled in chunks of the engine's choice
	Numerics    string    // if set, the numerics id that Schedule belongs to; another engine answers CodeNumerics
	MaxTokens   int       // new tokens at most; at least 1
	StopIDs     []int32   // sampling one of these ends the generation with StopToken
	Sampling    Sampling
	Checkpoints []int // positions (token counts) where a checkpoint of the state is wanted, ascending
	TopLogprobs int   // candidates reported with each token, 0 to 20
	Logprobs    bool  // report the log-probability of each token
}

// Event is one message of a generation. The fields are independent: an event may carry several of them.
type Event struct {
	Started  *Started  // first event only
	Prefill  *Progress // after each prefill chunk
	Tokens   []Token   // new tokens in order
	Computed []Segment // how tokens of the sequence were computed since the last event (the cached prefix is in Started)
	Done     *Done     // last event only
}

// Started tells what a generation begins with.
type Started struct {
	Cached   int       // tokens taken from a cached state
	Miss     string    // why not more: "" (all but the last token), "new", "diverged", "no checkpoint", "evicted", "numerics"
	Schedule []Segment // how the cached tokens were computed; sums to Cached
}

// Progress counts prompt tokens, cached ones included.
type Progress struct{ Done, Total int }

// Token is one sampled token.
type Token struct {
	ID      int32
	Text    string // complete UTF-8 that this token ends; may be empty while a character is unfinished
	Logprob float32
	Top     []TokenLogprob // ordered by log-probability descending, then id ascending
}

// TokenLogprob is one candidate.
type TokenLogprob struct {
	ID      int32
	Text    string // the token's own bytes, invalid ones as U+FFFD
	Logprob float32
}

// Done ends a generation.
type Done struct {
	Reason FinishReason
	Text   string // what the detokeniser still held back
	StopID int32  // the sampled stop id when Reason is StopToken; it is no Token event
}

// FinishReason says why a generation ended.
type FinishReason int

// The reasons of Done.
const (
	StopToken  FinishReason = 1 // a stop id was sampled
	MaxTokens  FinishReason = 2 // GenerateRequest.MaxTokens were sampled
	ContextEnd FinishReason = 3 // the sequence reached the context limit
)

// ScoreRequest asks for teacher-forced predictions.
type ScoreRequest struct {
	ID     string
	Tokens []int32
	From   int // first position wanted, at least 1
	TopK   int // candidates reported, at least 1
}

// ScoreStep is the prediction for Tokens[Position] given what is before it.
type ScoreStep struct {
	Position int
	Logprob  float32 // of Tokens[Position]; 0 at Position == len(Tokens)
	Top      []TokenLogprob
}

// Stats is a snapshot of the engine's counters.
type Stats struct {
	WeightBytes int64 // bytes of weights in use (mapped or allocated)
	StateBytes  int64 // states and their checkpoints
	StateBudget int64
	Sessions    int // cached sequences
	Checkpoints int
	Active      int // generations being interleaved
	Waiting     int // generations waiting for a place
	Prefilled   int64
	Decoded     int64 // tokens computed since Load
	Cached      int64 // prompt tokens taken from cached states

	// ExpertLoads is how many rows each expert of each layer with experts got of the prompts computed since Load, up to the last
	// request that ended; nil where the backend doesn't count them.
	ExpertLoads [][]int64
}
