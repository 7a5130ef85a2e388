package process

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/connectivity"
)

const (
	pingTime  = time.Second            // deadline of a ping
	watchTime = 100 * time.Millisecond // between two looks at the heartbeat
)

func (c *child) watchExit(ctx context.Context) {
	select {
	case <-c.proc.exited:
		c.notice("exit")
	case <-ctx.Done():
	}
}

// watchConnection sees the connection break, about a millisecond after a death. gRPC makes a connection usable a moment
// before it calls it ready, so it may still be connecting here.
func (c *child) watchConnection(ctx context.Context) {
	conn := c.client.Conn
	for state := conn.GetState(); state == connectivity.Ready || state == connectivity.Connecting; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
	}
	c.notice("connection")
}

// watchProgress kills a worker whose heartbeat makes no progress while it should.
func (c *child) watchProgress(ctx context.Context) {
	s := stall{limits: c.cfg.Limits, interval: watchTime}
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.worker.gone:
			return
		case now := <-tick.C:
			b := c.beat()
			stalled := s.observe(now, b, c.answers.Load())
			c.quiet.Store(int64(s.quiet))
			if stalled {
				c.kill(Stalled, fmt.Sprintf("no progress for %s in %s", s.quiet.Round(time.Millisecond), b.Phase))
				c.notice("heartbeat")
				return
			}
		}
	}
}

// ping keeps answers up to date.
func (c *child) ping(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.worker.gone:
			return
		case <-time.After(c.cfg.Limits.Ping):
		}
		pctx, cancel := context.WithTimeout(ctx, pingTime)
		_, err := c.engine.Hello(pctx)
		cancel()
		c.answers.Store(err == nil)
	}
}
