package protocol

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "lilypad/protocol/proto"
)

// grpcCodes is the error table. No two codes share a gRPC code, so a status that lost its detail keeps its kind. A bare
// Unavailable is the exception: gRPC itself says it when the connection broke, so only the detail tells CodeDraining.
var grpcCodes = map[Code]codes.Code{
	CodeInternal:      codes.Internal,
	CodeInvalid:       codes.InvalidArgument,
	CodeContextLength: codes.OutOfRange,
	CodeMemory:        codes.ResourceExhausted,
	CodeNotLoaded:     codes.NotFound,
	CodeCheckpoint:    codes.DataLoss,
	CodeNumerics:      codes.FailedPrecondition,
	CodeDraining:      codes.Unavailable,
	CodeDevice:        codes.Unknown,
	CodeSlowReader:    codes.Aborted,
}

// toStatus gives the gRPC form of an engine's error.
func toStatus(err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled):
		// The empty detail tells an engine's own word from a connection that our side closed.
		if st, detailErr := status.New(codes.Canceled, "canceled").WithDetails(&pb.ErrorDetail{}); detailErr == nil {
			return st.Err()
		}
		return status.Error(codes.Canceled, "canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "deadline exceeded")
	default:
		e = &Error{Code: CodeInternal, Message: err.Error()}
	}
	code, ok := grpcCodes[e.Code]
	if !ok {
		code = codes.Internal
	}
	st, detailErr := status.New(code, strings.ToValidUTF8(err.Error(), "\uFFFD")).WithDetails(&pb.ErrorDetail{
		Code: int64(e.Code), Message: []byte(err.Error()), Have: e.Have, Want: e.Want,
	})
	if detailErr != nil {
		return status.Error(codes.Internal, detailErr.Error())
	}
	return st.Err()
}

// fromStatus gives back the engine's error. ctx is the caller's and gone ends with the process; a call that ended since
// the caller's context ended reports that, whatever the connection made of it.
func fromStatus(ctx, gone context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	st, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("%w: %v", ErrWorkerGone, err)
	}
	for _, d := range st.Details() {
		if d, ok := d.(*pb.ErrorDetail); ok {
			if st.Code() == codes.Canceled {
				return context.Canceled
			}
			return &Error{Code: Code(d.Code), Message: string(d.Message), Have: d.Have, Want: d.Want}
		}
	}
	switch {
	case st.Code() == codes.Unavailable, st.Code() == codes.Canceled, gone.Err() != nil:
		// Canceled although nobody canceled: the connection of a dead worker was closed on our side.
		return fmt.Errorf("%w: %s", ErrWorkerGone, st.Message())
	case st.Code() == codes.DeadlineExceeded:
		return context.DeadlineExceeded
	}
	for code, g := range grpcCodes {
		if g == st.Code() && code != CodeDevice && code != CodeMemory {
			return &Error{Code: code, Message: st.Message()}
		}
	}
	if st.Code() == codes.ResourceExhausted { // gRPC's own: a message above MaxMessage
		return &Error{Code: CodeInvalid, Message: st.Message()}
	}
	return &Error{Code: CodeInternal, Message: st.Message()}
}
