package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"lilypad/supervisor/generate"
	"lilypad/supervisor/openai"
)

// errClientGone says that the client closed the connection or took nothing for too long.
var errClientGone = errors.New("client is gone")

// streamChat sends the answer as it is made. The head goes out when the first worker begins, or after a second of waiting
// for it: until then a failure still gets its own status.
func (s *server) streamChat(ctx context.Context, c *gin.Context, req *openai.ChatRequest, j *job) {
	j.KeepAlive = s.KeepAlive
	var out *openai.Stream
	result, err := generate.Run(ctx, s.Workers, j.Request, func(u generate.Update) error {
		if out == nil {
			out = s.openStream(c, j, u.Begin)
			out.Role()
		}
		if u.Reasoning != "" {
			out.Reasoning(u.Reasoning)
		}
		if u.Content != "" {
			out.Content(u.Content)
		}
		if u.Begin == nil && u.Reasoning == "" && u.Content == "" {
			out.KeepAlive(string(u.Phase))
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("%w: %w", errClientGone, err)
		}
		return nil
	})
	note(c, j, result)
	switch {
	case err != nil && out == nil:
		s.failWith(c, err)
	case err != nil:
		s.endBadly(c, out, err)
	default:
		out.Finish(string(result.Finish), truth(j, result))
		if req.IncludeUsage {
			out.Usage(usage(j, result), truth(j, result))
		}
		if err := out.Done(); err != nil {
			recordOf(c).failed = "client_gone"
		}
	}
}

// endBadly sends the error frame, if the client still listens.
func (s *server) endBadly(c *gin.Context, out *openai.Stream, err error) {
	e := s.wire(err)
	r := recordOf(c)
	e.RequestID, r.failed = r.id, e.Code
	if e.Status == statusClientGone {
		return
	}
	if out.Fail(e) != nil {
		r.failed = "client_gone"
	}
}

// openStream sends the head of an event stream.
func (s *server) openStream(c *gin.Context, j *job, begin *generate.Begin) *openai.Stream {
	h := c.Writer.Header()
	incarnation := j.incarnation
	if begin != nil {
		incarnation = begin.Incarnation
	}
	servedBy(h, j, incarnation, begin)
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	c.Status(http.StatusOK)
	w := &timedWriter{to: c.Writer, control: http.NewResponseController(c.Writer), limit: s.WriteLimit}
	return openai.NewStream(w, newID("chatcmpl-"), time.Now().Unix(), j.info.Name, j.fingerprint)
}

// timedWriter gives each write to the client a deadline, so that one who takes nothing can't hold a stream for ever.
type timedWriter struct {
	to      http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

func (w *timedWriter) Write(frames []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.limit)) // best effort: a recorder in a test has none
	return w.to.Write(frames)
}

func (w *timedWriter) Flush() error {
	defer func() { _ = w.control.SetWriteDeadline(time.Time{}) }()
	return w.control.Flush()
}
