package chat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilypad/protocol"
)

// TestLiteralSpansAreMerged: a run of tokens is one span, a slice of the text: joined piece by piece, a long run would take
// quadratic time.
func TestLiteralSpansAreMerged(t *testing.T) {
	const token = "<|im_end|>"
	m := newTokenMatcher([]protocol.AddedToken{{ID: 1, Content: token}})
	marksOf := func(text string, from, to int) (marks []int) {
		for _, o := range m.find(text) {
			if o.start >= from && o.end <= to {
				marks = append(marks, o.start, o.end-1)
			}
		}
		return marks
	}
	run := strings.Repeat(token, 200_000)
	tests := []struct {
		name     string
		text     string
		from, to int // tokens within are marked
		want     []protocol.Span
	}{
		{"nothing", "", 0, 0, nil},
		{"no token", "ab", 0, 2, []protocol.Span{{Text: "ab"}}},
		{"a run", run, 0, len(run), []protocol.Span{{Text: run, Literal: true}}},
		{"text around", "a" + token + "b", 0, 99, []protocol.Span{{Text: "a"}, {Text: token, Literal: true}, {Text: "b"}}},
		{"the last is control", token + token + token, 0, 2 * len(token), []protocol.Span{{Text: token + token, Literal: true}, {Text: token}}},
		{"the first is control", token + token, len(token), 99, []protocol.Span{{Text: token}, {Text: token, Literal: true}}},
		{"text between", token + " " + token, 0, 99, []protocol.Span{{Text: token, Literal: true}, {Text: " "}, {Text: token, Literal: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, m.literal(tt.text, marksOf(tt.text, tt.from, tt.to))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
