package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Types of an Error.
const (
	TypeInvalid    = "invalid_request_error"
	TypePermission = "permission_error"
	TypeServer     = "server_error"
)

// Error is the object that clients get under the key "error", before a stream with an HTTP status and within one as a
// frame. The SDKs hand the whole object to their caller, which is why our extensions are inside it.
type Error struct {
	Status     int  `json:"-"` // HTTP status, used only before the first body byte
	NoRetry    bool `json:"-"` // send x-should-retry: false
	RetryAfter int  `json:"-"` // seconds for the retry-after header, 1 to 8; 0 sends none

	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`

	Retryable    *bool  `json:"retryable,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	Cause        string `json:"cause,omitempty"`
	Phase        string `json:"phase,omitempty"`
	Incarnation  int    `json:"incarnation,omitempty"`
	OutputTokens *int   `json:"output_tokens,omitempty"`
	PromptTokens int    `json:"n_prompt_tokens,omitempty"`
	Context      int    `json:"n_ctx,omitempty"`
	RequestID    string `json:"request_id,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Body is the JSON document {"error": ...}.
func (e *Error) Body() []byte {
	b, err := json.Marshal(struct {
		Error *Error `json:"error"`
	}{e})
	if err != nil {
		panic("BUG: error object does not marshal: " + err.Error())
	}
	return b
}

// Invalid is a 400 about the request field param, or about the whole body if param is empty.
func Invalid(param, format string, args ...any) *Error {
	return refuse("invalid_value", param, format, args...)
}

// Unsupported is a 400 about a known parameter that this server can't honour.
func Unsupported(param, format string, args ...any) *Error {
	return refuse("unsupported_parameter", param, format, args...)
}

func refuse(code, param, format string, args ...any) *Error {
	e := &Error{Status: http.StatusBadRequest, Type: TypeInvalid, Code: code, Message: fmt.Sprintf(format, args...)}
	if param != "" {
		e.Param = &param
	}
	return e
}

// mostEchoed is how many bytes of a client's own value an error message repeats.
const mostEchoed = 100

// Shorten cuts what a message repeats of a client's value.
func Shorten(value string) string {
	if len(value) <= mostEchoed {
		return value
	}
	return strings.ToValidUTF8(value[:mostEchoed], "") + "..."
}
