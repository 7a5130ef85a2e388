package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"lilypad/protocol"
	"lilypad/supervisor/chat"
	"lilypad/supervisor/generate"
	"lilypad/supervisor/openai"
	"lilypad/supervisor/process"
)

// maxBody is the most that a request body may have: a full context is far smaller.
const maxBody = 32 << 20

// limitRead gives a body a time in which it must come. The limit stays for a body that no handler reads to its end, since
// net/http waits for the rest of it after the answer; the next request of the connection has its own.
func (s *server) limitRead(c *gin.Context) {
	if c.Request.ContentLength != 0 {
		_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(s.ReadLimit)) // a recorder in a test has none
	}
}

// readBody reads the body to its end; net/http notices that a client has gone only after that, and without a limit.
func (s *server) readBody(c *gin.Context) ([]byte, *openai.Error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if err != nil {
		c.Writer.Header().Set("Connection", "close")
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalid, Code: "request_too_large",
			Message: fmt.Sprintf("The request body is larger than %d bytes.", maxBody)}
	case err != nil:
		return nil, &openai.Error{Status: http.StatusBadRequest, Type: openai.TypeInvalid, Code: "invalid_value",
			Message: "The request body could not be read to its end."}
	}
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{})
	return body, nil
}

// job is a request that is ready to be generated.
type job struct {
	generate.Request
	info        protocol.ModelInfo // of the worker that tokenised it
	incarnation int
	fingerprint string
}

// prepare renders and tokenises a request, so that all that can be wrong with it is said before the first byte of an
// answer. Errors are *openai.Error, *generate.Error or ctx's.
func (s *server) prepare(ctx context.Context, id string, req *openai.ChatRequest) (j *job, err error) {
	talk, bad := conversation(req)
	if bad != nil {
		return nil, bad
	}
	err = generate.Call(ctx, s.Workers, s.StartWait, func(ctx context.Context, w *process.Worker) error {
		if bad := checkModel(req.Model, w.Info); bad != nil {
			return bad
		}
		if n := len(talk.Messages); n >= w.Info.Context { // before any rendering: each has at least one token
			return tooLong(n, w.Info.Context, true)
		}
		t, err := s.templateOf(w.Info)
		if err != nil {
			return err
		}
		p, err := t.prompt(ctx, w.Engine, talk)
		if err != nil {
			return err
		}
		if len(p.tokens) >= w.Info.Context {
			return tooLong(len(p.tokens), w.Info.Context, false)
		}
		j = &job{info: w.Info, incarnation: w.Incarnation, fingerprint: t.fingerprint}
		j.Request = generate.Request{ID: id, Tokens: p.tokens, MaxTokens: req.MaxTokens, Sampling: sampling(req, w.Info.Sampling),
			Stop: req.Stop, Checkpoints: p.checkpoints, Split: p.split}
		return nil
	})
	return j, err
}

// sampling puts what the request says over the model's defaults. A missing seed is drawn here and kept with the
// generation, so that a replay samples the same.
func sampling(req *openai.ChatRequest, s protocol.Sampling) protocol.Sampling {
	if req.Temperature != nil {
		s.Temperature = float32(*req.Temperature)
	}
	if req.TopP != nil {
		s.TopP = float32(*req.TopP)
	}
	if req.TopK != nil {
		s.TopK = *req.TopK
	}
	if req.MinP != nil {
		s.MinP = float32(*req.MinP)
	}
	if s.Seed = generate.NewSeed(); req.Seed != nil {
		s.Seed = *req.Seed
	}
	return s
}

// conversation reads the messages and template options of a request.
func conversation(req *openai.ChatRequest) (c chat.Conversation, bad *openai.Error) {
	list, err := chat.ParseJSON(req.Messages)
	if err != nil {
		return c, openai.Invalid("messages", "messages can't be read: %v", err)
	}
	c.Generate = true
	for i, m := range list.Items() {
		m, bad := message(i, m)
		if bad != nil {
			return c, bad
		}
		c.Messages = append(c.Messages, m)
	}
	if req.TemplateKwargs != nil {
		options, err := chat.ParseJSON(req.TemplateKwargs)
		if err != nil {
			return c, openai.Invalid("chat_template_kwargs", "chat_template_kwargs can't be read: %v", err)
		}
		c.Options = map[string]chat.Value{}
		for _, f := range options.Fields() {
			c.Options[f.Name] = f.Value
		}
		if _, err := chat.Normalize(chat.Conversation{Options: c.Options}); err != nil {
			return c, openai.Invalid("chat_template_kwargs", "%v", err)
		}
	}
	return c, nil
}
