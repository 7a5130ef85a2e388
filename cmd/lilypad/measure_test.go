package main

import (
	"testing"
	"time"
)

// TestPerToken: tokens that come together are no faster for it.
func TestPerToken(t *testing.T) {
	for _, c := range []struct {
		name string
		s    speed
		want time.Duration
	}{
		{"one by one", speed{first: 10 * time.Millisecond, total: 109 * time.Millisecond, steps: 99, all: 100}, time.Millisecond},
		{"a few come first", speed{first: 20 * time.Millisecond, total: 100 * time.Millisecond, steps: 80, all: 100}, time.Millisecond},
		{"all come at once", speed{first: 100 * time.Millisecond, total: 100 * time.Millisecond, steps: 0, all: 100}, time.Millisecond},
		{"two pieces at the end", speed{first: 100 * time.Millisecond, total: 100*time.Millisecond + 1, steps: 10, all: 100}, time.Millisecond},
		{"one token", speed{first: time.Millisecond, total: time.Millisecond, steps: 0, all: 1}, time.Millisecond},
	} {
		if got := c.s.perToken().Round(time.Microsecond); got != c.want {
			t.Errorf("%s: %v a token, want %v", c.name, got, c.want)
		}
	}
}
