package process

import (
	"math/rand/v2"
	"time"
)

// restarts decides when the next worker starts. A worker that finished its load (hence every one that produced a token)
// is followed by the next at once; only deaths in a row before that cost time.
type restarts struct {
	limits Limits
	barren int // deaths in a row without a finished load
}

// after takes a death and returns how long to wait, whether memory must be back first, and whether the breaker is open.
func (r *restarts) after(cause Cause, loaded bool) (wait time.Duration, memory, open bool) {
	if loaded {
		r.barren = 0
	} else {
		r.barren++
	}
	if n := r.barren; n >= r.limits.Breaker {
		wait, open = r.limits.HalfOpen, true
	} else if n > 0 {
		wait = jitter(r.limits.Backoff[min(n, len(r.limits.Backoff))-1])
	}
	if cause == Jetsam {
		wait, memory = max(wait, r.limits.Jetsam), true
	}
	return wait, memory, open
}

// jitter spreads d by a fifth to both sides.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
