package api

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"lilypad/supervisor/generate"
	"lilypad/supervisor/openai"
)

// fail answers with an error and ends the request.
func fail(c *gin.Context, e *openai.Error) {
	r := recordOf(c)
	e.RequestID, r.failed = r.id, e.Code
	h := c.Writer.Header()
	if e.NoRetry {
		h.Set("x-should-retry", "false")
	}
	if e.RetryAfter > 0 {
		h.Set("retry-after", strconv.Itoa(e.RetryAfter))
		h.Set("retry-after-ms", strconv.FormatInt(e.RetryAfterMS, 10))
	}
	h.Set("Cache-Control", "no-cache")
	c.Abort()
	c.Data(e.Status, "application/json", e.Body())
}

// statuses gives each failure of a generation its HTTP status, used while nothing was sent (wire contract 4.1).
var statuses = map[generate.Code]int{
	generate.EngineCrashed:     http.StatusInternalServerError,
	generate.EngineStalled:     http.StatusInternalServerError,
	generate.EngineOOM:         http.StatusInternalServerError,
	generate.GPUError:          http.StatusInternalServerError,
	generate.EngineRestarting:  http.StatusServiceUnavailable,
	generate.EngineUnavailable: http.StatusServiceUnavailable,
	generate.Memory:            http.StatusServiceUnavailable,
	generate.Cancelled:         http.StatusServiceUnavailable,
	generate.ContextLength:     http.StatusBadRequest,
	generate.Deadline:          http.StatusGatewayTimeout,
	generate.Internal:          http.StatusInternalServerError,
}

// wireError puts a failed generation into the wire form. An SDK must not send again what has crashed an engine, nor what
// ran out of time: a status of 500 or 504 says so.
func wireError(e *generate.Error) *openai.Error {
	tokens, retryable := e.Tokens, e.Retryable
	w := &openai.Error{
		Status: statuses[e.Code], Type: openai.TypeServer, Code: string(e.Code), Message: e.Message,
		Retryable: &retryable, RetryAfterMS: e.RetryAfter.Milliseconds(),
		Cause: string(e.Cause), Phase: e.Phase, Incarnation: e.Incarnation, OutputTokens: &tokens,
	}
	switch w.Status {
	case http.StatusBadRequest:
		w.Type = openai.TypeInvalid
		w.PromptTokens, w.Context = int(e.Have), int(e.Want)
	case http.StatusServiceUnavailable:
		if w.NoRetry = !retryable; retryable {
			w.RetryAfter = retrySeconds(e.RetryAfter)
		}
	default:
		w.NoRetry = true
	}
	return w
}

// retrySeconds rounds up to what SDKs honour: a whole number from 1 to 8.
func retrySeconds(d time.Duration) int {
	return int(min(max(math.Ceil(d.Seconds()), 1), 8))
}

// tooLong says that a prompt does not fit, with both numbers in the text and as fields.
// tooLong refuses a prompt of so many tokens, or of at least so many if that is all that is known.
func tooLong(prompt, context int, atLeast bool) *openai.Error {
	size := strconv.Itoa(prompt)
	if atLeast {
		size = "at least " + size
	}
	e := openai.Invalid("messages", "This model's maximum context length is %d tokens, of which at least one is for the answer. "+
		"Your messages are %s tokens long. Please shorten them.", context, size)
	e.Code, e.PromptTokens, e.Context = "context_length_exceeded", prompt, context
	return e
}
