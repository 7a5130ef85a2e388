package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"lilypad/supervisor/generate"
	"lilypad/supervisor/openai"
)

// chatCompletions is POST /v1/chat/completions.
func (s *server) chatCompletions(c *gin.Context) {
	body, bad := s.readBody(c)
	if bad != nil {
		fail(c, bad)
		return
	}
	req, bad := openai.ParseChat(body)
	if bad != nil {
		fail(c, bad)
		return
	}
	ctx, cancel := context.WithCancelCause(c.Request.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.Stop, func() { cancel(generate.ErrCancelled) })()

	j, err := s.prepare(ctx, recordOf(c).id, req)
	if err != nil {
		s.failWith(c, err)
		return
	}
	if req.Stream {
		s.streamChat(ctx, c, req, j)
		return
	}
	s.answerChat(ctx, c, j)
}

// answerChat sends the whole answer at once. A worker's death shows only if all replays fail.
func (s *server) answerChat(ctx context.Context, c *gin.Context, j *job) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience(c.Request), generate.ErrDeadline)
	defer cancel()
	var reasoning, content []byte
	result, err := generate.Run(ctx, s.Workers, j.Request, func(u generate.Update) error {
		reasoning, content = append(reasoning, u.Reasoning...), append(content, u.Content...)
		return nil
	})
	note(c, j, result)
	if err != nil {
		s.failWith(c, err)
		return
	}
	servedBy(c.Writer.Header(), j, result.Incarnation, &result.Begin)
	c.PureJSON(http.StatusOK, openai.ChatCompletion{
		ID: newID("chatcmpl-"), Object: "chat.completion", Created: time.Now().Unix(), Model: j.info.Name, Fingerprint: j.fingerprint,
		Choices: []openai.Choice{{
			Message:      openai.Message{Role: "assistant", Content: string(content), Reasoning: string(reasoning)},
			FinishReason: string(result.Finish),
		}},
		Usage:   usage(j, result),
		Lilypad: truth(j, result),
	})
}

// patience is how long an answer that can't be kept alive may take: less than the 300 s after which undici gives up, or
// less than what the client says of itself.
func patience(r *http.Request) time.Duration {
	if n, err := strconv.Atoi(r.Header.Get("X-Stainless-Timeout")); err == nil && n > 10 && n <= 24*3600 {
		return time.Duration(n-5) * time.Second
	}
	return 285 * time.Second
}

// failWith answers with what ended a request before its first byte.
func (s *server) failWith(c *gin.Context, err error) {
	fail(c, s.wire(err))
}

// wire turns any error of a request into the wire form. One whose client has gone is written for the log alone.
func (s *server) wire(err error) *openai.Error {
	var known *openai.Error
	var failed *generate.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &failed):
		e := wireError(failed)
		if failed.Code == generate.EngineRestarting && s.Health().Incarnation <= 1 {
			e.Code = "engine_loading"
		}
		return e
	case errors.Is(err, generate.ErrCancelled):
		return wireError(&generate.Error{Code: generate.Cancelled, Message: "The server is shutting down.", Retryable: true, RetryAfter: time.Second})
	case errors.Is(err, context.Canceled) || errors.Is(err, errClientGone):
		return &openai.Error{Status: statusClientGone, Type: openai.TypeServer, Code: "client_gone", Message: "The client closed the request."}
	}
	s.log.WithError(err).Warn("request failed")
	return wireError(&generate.Error{Code: generate.Internal, Message: "The engine failed at this request."})
}

// statusClientGone is nginx's number for a client that left; nobody receives it.
const statusClientGone = 499

// servedBy sets the headers that tell who serves. begin is nil while no worker has begun.
func servedBy(h http.Header, j *job, incarnation int, begin *generate.Begin) {
	h.Set("x-lilypad-served-by", "local")
	h.Set("x-lilypad-model", j.info.Name)
	h.Set("x-lilypad-incarnation", strconv.Itoa(incarnation))
	h.Set("Cache-Control", "no-cache")
	if begin != nil {
		h.Set("x-lilypad-cache", fmt.Sprintf("hit=%d;miss=%s", begin.Cached, begin.Miss))
	}
}

func usage(j *job, r generate.Result) openai.Usage {
	return openai.Usage{
		PromptTokens: len(j.Tokens), CompletionTokens: r.Tokens, TotalTokens: len(j.Tokens) + r.Tokens,
		PromptDetails: openai.PromptDetails{CachedTokens: r.Begin.Cached},
		Completion:    openai.CompletionDetails{ReasoningTokens: r.Reasoning},
	}
}

// truth is what really happened, for the end of an answer.
func truth(j *job, r generate.Result) *openai.Lilypad {
	t := &openai.Lilypad{ServedBy: "local", Incarnation: r.Incarnation, Recoveries: []openai.Recovery{}, Replayed: r.Replayed, Seed: j.Sampling.Seed}
	for _, x := range r.Recoveries {
		t.Recoveries = append(t.Recoveries, openai.Recovery{Cause: string(x.Cause), Incarnation: x.Incarnation, AfterTokens: x.Tokens, Exact: x.Exact})
	}
	return t
}

// note puts a generation's figures into the request's log line.
func note(c *gin.Context, j *job, r generate.Result) {
	f := recordOf(c).fields
	f["tokens"], f["prompt"], f["cached"] = r.Tokens, len(j.Tokens), r.Begin.Cached
	f["finish"], f["incarnation"], f["recoveries"] = r.Finish, r.Incarnation, len(r.Recoveries)
}
