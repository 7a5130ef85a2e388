package openai

import (
	"encoding/json"
	"strconv"
)

// Flusher takes a whole number of frames: Write gets them in one piece, Flush sends them on.
type Flusher interface {
	Write(frames []byte) (int, error)
	Flush() error
}

// Stream writes the chunks of one streamed answer. Chunks are gathered until Flush, so that what is there at the same time
// travels in one write; failures go out at once. It is used by one goroutine.
type Stream struct {
	out     Flusher
	head    []byte // everything of a chunk before the value of "choices"
	pending []byte
}

// NewStream starts the answer called id; created is Unix seconds. All chunks carry the same id, created, model
// and fingerprint.
func NewStream(out Flusher, id string, created int64, model, fingerprint string) *Stream {
	head := append([]byte(nil), `data: {"id":`...)
	head = AppendString(head, id)
	head = append(head, `,"object":"chat.completion.chunk","created":`...)
	head = strconv.AppendInt(head, created, 10)
	head = append(head, `,"model":`...)
	head = AppendString(head, model)
	head = append(head, `,"system_fingerprint":`...)
	head = AppendString(head, fingerprint)
	head = append(head, `,"choices":`...)
	return &Stream{out: out, head: head}
}

const (
	frameEnd  = "}\n\n"
	deltaOpen = `[{"index":0,"delta":{`
	deltaEnd  = `},"finish_reason":null}]`
)

// Role appends the first chunk.
func (s *Stream) Role() {
	s.delta(`"role":"assistant","content":null`)
}

// Content appends a piece of the answer.
func (s *Stream) Content(text string) { s.text(`"content":`, text) }

// Reasoning appends a piece of the model's thinking.
func (s *Stream) Reasoning(text string) { s.text(`"reasoning_content":`, text) }

// KeepAlive appends a chunk that adds nothing: clients count parsed events, not comments. phase tells a person what is
// going on ("queued", "prefill", "recovering" ...).
func (s *Stream) KeepAlive(phase string) {
	s.open()
	s.pending = append(s.pending, deltaOpen+deltaEnd+`,"lilypad":{"phase":`...)
	s.pending = AppendString(s.pending, phase)
	s.pending = append(s.pending, '}')
	s.pending = append(s.pending, frameEnd...)
}

// Finish appends the chunk with the reason. Its extension block tells who served the answer.
func (s *Stream) Finish(reason string, truth *Lilypad) {
	s.open()
	s.pending = append(s.pending, `[{"index":0,"delta":{},"finish_reason":`...)
	s.pending = AppendString(s.pending, reason)
	s.pending = append(s.pending, '}', ']')
	s.extend("lilypad", truth)
	s.pending = append(s.pending, frameEnd...)
}

// Usage appends the chunk without choices that stream_options.include_usage asks for.
func (s *Stream) Usage(u Usage, truth *Lilypad) {
	s.open()
	s.pending = append(s.pending, '[', ']')
	s.extend("usage", u)
	s.extend("lilypad", truth)
	s.pending = append(s.pending, frameEnd...)
}

// Done appends the end mark and flushes.
func (s *Stream) Done() error {
	s.pending = append(s.pending, "data: [DONE]\n\n"...)
	return s.Flush()
}

// Fail ends the stream with one error frame and the end mark, each in a write of its own: half a frame would reach clients
// as a network error. Chunks that wait are sent before.
func (s *Stream) Fail(e *Error) error {
	if err := s.Flush(); err != nil {
		return err
	}
	s.pending = append(s.pending, "data: "...)
	s.pending = append(s.pending, e.Body()...)
	s.pending = append(s.pending, '\n', '\n')
	if err := s.Flush(); err != nil {
		return err
	}
	return s.Done()
}

// Flush sends the chunks that wait.
func (s *Stream) Flush() error {
	if len(s.pending) == 0 {
		return nil
	}
	_, err := s.out.Write(s.pending)
	s.pending = s.pending[:0]
	if err != nil {
		return err
	}
	return s.out.Flush()
}

func (s *Stream) open() { s.pending = append(s.pending, s.head...) }

func (s *Stream) delta(members string) {
	s.open()
	s.pending = append(s.pending, deltaOpen...)
	s.pending = append(s.pending, members...)
	s.pending = append(s.pending, deltaEnd+frameEnd...)
}

func (s *Stream) text(member, text string) {
	s.open()
	s.pending = append(s.pending, deltaOpen...)
	s.pending = append(s.pending, member...)
	s.pending = AppendString(s.pending, text)
	s.pending = append(s.pending, deltaEnd+frameEnd...)
}

// extend appends one more member to the open chunk.
func (s *Stream) extend(member string, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		panic("BUG: " + member + " does not marshal: " + err.Error())
	}
	s.pending = append(s.pending, ',', '"')
	s.pending = append(s.pending, member...)
	s.pending = append(s.pending, '"', ':')
	s.pending = append(s.pending, b...)
}
