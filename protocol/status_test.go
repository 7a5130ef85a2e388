package protocol

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestErrorTable(t *testing.T) {
	seen := map[codes.Code]Code{}
	for code := CodeInternal; code <= CodeSlowReader; code++ {
		g, ok := grpcCodes[code]
		if !ok {
			t.Fatalf("code %d has no gRPC code", code)
		}
		if other, twice := seen[g]; twice {
			t.Errorf("codes %d and %d are both %s", code, other, g)
		}
		seen[g] = code
		for _, want := range []*Error{
			{Code: code, Message: "m", Have: 40000, Want: 32768},
			{Code: code, Message: "no UTF-8: \xff"},
			{Code: code},
		} {
			st := toStatus(fmt.Errorf("outer: %w", want))
			if status.Code(st) != g {
				t.Errorf("code %d travels as %s, want %s", code, status.Code(st), g)
			}
			var got *Error
			if !errors.As(fromStatus(t.Context(), t.Context(), st), &got) {
				t.Fatalf("code %d came back as %v", code, fromStatus(t.Context(), t.Context(), st))
			}
			if got.Code != code || got.Have != want.Have || got.Want != want.Want || got.Message != "outer: "+want.Message {
				t.Errorf("sent %+v, got %+v", want, got)
			}
			if errors.Is(got, ErrWorkerGone) {
				t.Errorf("code %d looks like a dead worker", code)
			}
		}
	}
	if len(grpcCodes) != len(seen) {
		t.Errorf("table has %d rows, want %d", len(grpcCodes), len(seen))
	}
}

func TestErrorsOfContextAndTransport(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancelLate := context.WithTimeout(context.Background(), -1)
	defer cancelLate()
	live := context.Background()
	tests := []struct {
		name      string
		ctx, gone context.Context
		err       error
		want      error // matched with errors.Is
		code      Code
	}{
		{"no error", live, live, nil, nil, 0},
		{"engine was canceled", live, live, toStatus(context.Canceled), context.Canceled, 0},
		{"engine's deadline", live, live, toStatus(fmt.Errorf("x: %w", context.DeadlineExceeded)), context.DeadlineExceeded, 0},
		{"caller canceled", ended, live, status.Error(codes.Unavailable, "x"), context.Canceled, 0},
		{"caller's deadline", late, live, status.Error(codes.Canceled, "x"), context.DeadlineExceeded, 0},
		{"connection closed on our side", live, live, status.Error(codes.Canceled, "grpc: the client connection is closing"), ErrWorkerGone, 0},
		{"connection broke", live, live, status.Error(codes.Unavailable, "EOF"), ErrWorkerGone, 0},
		{"process exited", live, ended, status.Error(codes.Canceled, "x"), ErrWorkerGone, 0},
		{"not a status", live, live, errors.New("broken pipe"), ErrWorkerGone, 0},
		{"message too large", live, live, status.Error(codes.ResourceExhausted, "x"), nil, CodeInvalid},
		{"not offered", live, live, status.Error(codes.Unimplemented, "x"), nil, CodeInternal},
		{"plain error of an engine", live, live, toStatus(errors.New("x")), nil, CodeInternal},
		{"detail got lost", live, live, status.Error(codes.OutOfRange, "x"), nil, CodeContextLength},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := fromStatus(tt.ctx, tt.gone, tt.err)
			if tt.want == nil && tt.code == 0 && got != nil || tt.want != nil && !errors.Is(got, tt.want) || CodeOf(got) != tt.code {
				t.Errorf("got %v with code %d, want %v with code %d", got, CodeOf(got), tt.want, tt.code)
			}
		})
	}
}
