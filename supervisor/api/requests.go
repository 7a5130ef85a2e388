package api

import (
	crand "crypto/rand"
	"encoding/base32"
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sirupsen/logrus"

	"lilypad/supervisor/openai"
)

const requestKey = "lilypad.request" // key of *record in a gin.Context

// record is what is known of a request for its log line: never text that a client or the model wrote.
type record struct {
	id     string
	failed string // code of the error that was sent
	fields logrus.Fields
}

func recordOf(c *gin.Context) *record { return c.MustGet(requestKey).(*record) }

// identify gives each request an id, which the answer's headers, its errors and the log carry.
func identify(c *gin.Context) {
	r := &record{id: newID("req_"), fields: logrus.Fields{}}
	c.Set(requestKey, r)
	c.Writer.Header().Set("x-request-id", r.id)
}

// newID is prefix and 26 characters of 128 random bits.
func newID(prefix string) string {
	var b [16]byte
	_, _ = crand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return prefix + lower32.EncodeToString(b[:])
}

var lower32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// logRequest writes one line when a request has ended.
func (s *server) logRequest(c *gin.Context) {
	began := time.Now()
	c.Next()
	r := recordOf(c)
	fields := logrus.Fields{"request": r.id, "method": c.Request.Method, "route": c.FullPath(), "status": c.Writer.Status(),
		"elapsed_ms": time.Since(began).Milliseconds()}
	if r.failed != "" {
		fields["code"] = r.failed
	}
	if n := c.Request.Header.Get("X-Stainless-Retry-Count"); n != "" && n != "0" && len(n) < 4 {
		fields["client_retry"] = n
	}
	for k, v := range r.fields {
		fields[k] = v
	}
	entry := s.log.WithFields(fields)
	switch {
	case c.Request.Method != http.MethodPost && r.failed == "":
		entry.Debug("request")
	case c.Writer.Status() >= http.StatusInternalServerError:
		entry.Warn("request")
	default:
		entry.Info("request")
	}
}

// recoverPanic answers a broken invariant with a 500 and logs where it happened.
func (s *server) recoverPanic(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		s.log.WithFields(logrus.Fields{"request": recordOf(c).id, "err": p, "stack": string(debug.Stack())}).Error("handler panicked")
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // the client must not take half an answer for a whole one
		}
		fail(c, &openai.Error{Status: http.StatusInternalServerError, Type: openai.TypeServer, Code: "internal_error", NoRetry: true,
			Message: "The server failed at this request; its log has the details under the request id."})
	}()
	c.Next()
}
