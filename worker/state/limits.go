package state

import (
	"fmt"
	"sync/atomic"

	"lilypad/protocol"
)

// Ledger counts a backend's state memory against a limit. Used may be called from any goroutine.
type Ledger struct {
	Limit int64 // bytes; 0: none
	used  atomic.Int64
}

// Take reserves n bytes, or returns an error of protocol.CodeMemory and reserves nothing.
func (l *Ledger) Take(n int64) error {
	if free := l.Limit - l.used.Load(); l.Limit > 0 && n > free {
		return &protocol.Error{
			Code: protocol.CodeMemory, Have: free, Want: n,
			Message: fmt.Sprintf("no memory for the state of this conversation: %d bytes needed, %d of %d free", n, free, l.Limit),
		}
	}
	l.used.Add(n)
	return nil
}

// Give returns n bytes.
func (l *Ledger) Give(n int64) { l.used.Add(-n) }

// Used is the bytes that are reserved.
func (l *Ledger) Used() int64 { return l.used.Load() }

// CheckLength is an error of protocol.CodeContextLength when a sequence of n tokens is longer than most.
func CheckLength(n, most int) error {
	if n <= most {
		return nil
	}
	return &protocol.Error{
		Code: protocol.CodeContextLength, Have: int64(n), Want: int64(most),
		Message: fmt.Sprintf("the conversation has %d tokens, but at most %d fit; shorten it or start with a larger --context", n, most),
	}
}

// CheckForward refuses what no backend can compute: tokens at positions from pos on that are outside the vocabulary, or
// logits too few for rows of them.
func CheckForward(tokens []int32, pos, rows int, logits []float32, vocab int) error {
	if rows < 0 || rows > len(tokens) || len(logits) < rows*vocab {
		return fmt.Errorf("forward: %d logit rows of %d tokens in a buffer of %d floats, want %d", rows, len(tokens), len(logits), rows*vocab)
	}
	for i, id := range tokens {
		if id < 0 || int(id) >= vocab {
			return protocol.Errorf(protocol.CodeInvalid, "token id %d at position %d is outside the vocabulary of %d", id, pos+i, vocab)
		}
	}
	return nil
}
