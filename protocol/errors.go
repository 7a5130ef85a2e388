package protocol

import (
	"errors"
	"fmt"
)

// Code classifies an Error; each has one gRPC code and travels as a status detail (see client.go and server.go).
type Code int

// The codes of Error.
const (
	CodeInternal      Code = iota + 1 // a broken invariant or an unexpected failure in the engine
	CodeInvalid                       // the request's own fault
	CodeContextLength                 // Tokens do not fit: Have tokens, Want at most
	CodeMemory                        // not enough memory for states: Have bytes free, Want bytes
	CodeNotLoaded                     // Load has not finished
	CodeCheckpoint                    // the model directory can't run; Message is one sentence for a person
	CodeNumerics                      // the schedule belongs to another numerics id
	CodeDraining                      // no new requests
	CodeDevice                        // the GPU failed
	CodeSlowReader                    // the caller did not take events for too long
)

// Error is a failure that crosses the process boundary with its meaning.
type Error struct {
	Code       Code
	Message    string
	Have, Want int64 // the two numbers of CodeContextLength and CodeMemory
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the *Error in err's chain, or 0.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// ErrWorkerGone says that the engine's process died or its connection broke during a call.
var ErrWorkerGone = errors.New("worker is gone")
