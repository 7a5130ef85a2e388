package worker

import (
	"slices"

	"lilypad/protocol"
	"lilypad/worker/state"
)

const (
	// scheduledChunk is the longest chunk that a schedule may bring; no backend makes longer ones.
	scheduledChunk = 4096
	// crowdedChunk is the longest chunk while another request decodes, which waits for it.
	crowdedChunk = 512
	// worthCheckpoint is the length of prompt that gets a checkpoint at its end when the request names none.
	worthCheckpoint = 64
)

// plan cuts the tokens of a request that are not cached into units.
type plan struct {
	chunk    int                // most tokens computed at once
	total    int                // tokens to compute before the first one is sampled
	wanted   []int              // positions where a checkpoint is wanted, ascending
	passing  int                // one more, of less worth; 0 for none
	interval int                // and one at each multiple of this
	exact    []protocol.Segment // units to follow, from the cached prefix on
	resumed  bool               // the last token was sampled by a worker that died before it computed it
}

// newPlan plans req for a backend when cached tokens need no computing. On one that is independent of chunking a schedule has
// no influence on bits, and chunks replay faster than the decode steps they stand for, so it is not followed there.
func newPlan(req *protocol.GenerateRequest, cached, interval int, b state.Backend) *plan {
	p := &plan{chunk: b.Chunk(), total: len(req.Tokens), wanted: req.Checkpoints, interval: interval}
	p.resumed = len(req.Schedule) > 0 && req.Prompt < len(req.Tokens)
	if !b.ChunkIndependent() {
		p.exact = after(req.Schedule, cached)
	}
	end := min(max(req.Prompt, 1), p.total) - 1
	if len(p.wanted) == 0 && end-cached >= worthCheckpoint {
		p.passing = end
	}
	return p
}

// after is what a schedule says of the tokens from n on.
func after(schedule []protocol.Segment, n int) []protocol.Segment {
	rest := slices.Clone(schedule)
	for n > 0 && len(rest) > 0 {
		cut := min(n, rest[0].N)
		n -= cut
		if rest[0].N -= cut; rest[0].N == 0 {
			rest = rest[1:]
		}
	}
	return rest
}

// next is the unit to compute when pos < total tokens are: a whole prefill chunk, shorter in a crowd, or one decode step.
func (p *plan) next(pos int, crowd bool) protocol.Segment {
	if len(p.exact) > 0 {
		unit := p.exact[0]
		if unit.Kind == protocol.Decode {
			unit.N = 1
		}
		p.exact = after(p.exact, unit.N)
		return unit
	}
	if p.resumed && pos == p.total-1 {
		return protocol.Segment{Kind: protocol.Decode, N: 1}
	}
	chunk := p.chunk
	if crowd {
		chunk = min(chunk, crowdedChunk)
	}
	end := min(pos+chunk, p.total, (pos/p.interval+1)*p.interval)
	if p.passing > pos {
		end = min(end, p.passing)
	}
	for _, w := range p.wanted {
		if w > pos {
			end = min(end, w)
			break
		}
	}
	return protocol.Segment{Kind: protocol.Prefill, N: end - pos}
}

// checkpoint says whether to take a checkpoint at pos and whether the request asked for it.
func (p *plan) checkpoint(pos int) (take, wanted bool) {
	if slices.Contains(p.wanted, pos) {
		return true, true
	}
	return pos == p.passing || pos%p.interval == 0, false
}
