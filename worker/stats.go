package worker

import (
	"context"
	"sync/atomic"

	"lilypad/protocol"
	"lilypad/worker/state"
)

// counters are written by the compute thread and read by anybody.
type counters struct {
	stateBytes, sessions, checkpoints atomic.Int64
	prefilled, decoded, cached        atomic.Int64
	loads                             atomic.Pointer[[][]int64] // of experts
}

// forget says that there are no states any more.
func (c *counters) forget() {
	c.stateBytes.Store(0)
	c.sessions.Store(0)
	c.checkpoints.Store(0)
	c.loads.Store(nil)
}

// publish makes the compute thread's numbers visible, after each unit.
func (e *Engine) publish(l *loaded) {
	sessions, checkpoints := l.store.Counts()
	bytes := l.backend.Bytes()
	e.counters.sessions.Store(int64(sessions))
	e.counters.checkpoints.Store(int64(checkpoints))
	e.counters.stateBytes.Store(bytes)
	e.opt.Heartbeat.SetBytes(l.info.WeightBytes + bytes)
}

// publishLoads makes the loads of experts visible, after each request that computed a chunk.
func (e *Engine) publishLoads(l *loaded) {
	if r, ok := l.backend.(state.Router); ok {
		if loads, err := r.ExpertLoads(); err == nil { // a failure of the GPU shows at the next step
			e.counters.loads.Store(&loads)
		}
	}
}

// Stats implements protocol.Engine.
func (e *Engine) Stats(context.Context) (protocol.Stats, error) {
	c := &e.counters
	st := protocol.Stats{
		StateBytes: c.stateBytes.Load(), Sessions: int(c.sessions.Load()), Checkpoints: int(c.checkpoints.Load()),
		Prefilled: c.prefilled.Load(), Decoded: c.decoded.Load(), Cached: c.cached.Load(),
	}
	if loads := c.loads.Load(); loads != nil {
		st.ExpertLoads = *loads
	}
	if l, err := e.model(); err == nil {
		st.WeightBytes, st.StateBudget = l.info.WeightBytes, l.budget
		st.Active, st.Waiting = l.thread.counts()
	}
	return st, nil
}
