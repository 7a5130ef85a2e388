package gpu

import (
	"encoding/binary"

	"lilypad/worker/state"
)

const (
	// fewestInChunk is the least tokens that are computed at once: fewer are faster one by one. On an H200 a token takes 1.6 ms
	// and a chunk of 2 takes 11, one of 16 takes 16.
	fewestInChunk = 8
	// passSeconds is what a command buffer of a chunk should take: short enough for the display, for a watchdog and for
	// whoever wants to stop, long enough to hide what a buffer costs.
	passSeconds = 0.1
	// blindLayers is how many layers a command buffer holds while nothing is known of their speed.
	blindLayers = 1
)

// prefill computes tokens of s in chunks and writes the logits of the last rows. Where the
// chunks are cut does not change a bit, as long as they begin at multiples of shortChunk. When stop says so, it returns
// state.ErrStopped between command buffers, with s as it was after the last whole chunk.
func (m *Model) prefill(s *sequence, tokens []int32, rows int, out []float32, stop func() bool) error {
	for len(tokens) > 0 {
		n, err := m.chunkRoom(len(tokens))
		if err != nil {
			return err
		}
		last := min(n, max(0, rows-(len(tokens)-n))) // rows of this chunk that are wanted
		if err := m.prefillChunk(s, tokens[:n], stop); err != nil {
			return err
		}
		if err := m.chunkLogits(n-last, last, out); err != nil {
			return err
		}
		s.advanceChunk(n)
		tokens, rows, out = tokens[n:], rows-last, out[last*m.shape.Vocab:]
	}
	return nil
}

// prefillChunk computes tokens up to the residual of the last layer, in as many command buffers as their pace asks for. Two
// are in flight, so the GPU doesn't wait for the host.
func (m *Model) prefillChunk(s *sequence, tokens []int32, stop func() bool) error {
	if err := m.setChunk(s, tokens); err != nil {
		return err
	}
	c, err := m.chunkOf(len(tokens), s.len+len(tokens))
	if err != nil {
		return err
	}
	for ops := c.ops; len(ops) > 0; {
		if stop != nil && stop() {
			if err := m.rest(); err != nil {
				return err
			}
			return state.ErrStopped
		}
		n, layers := layersOf(ops, m.runner.pace.layers(len(tokens)))
		if err := m.runOps(ops[:n], layers*len(tokens)); err != nil {
			return err
		}
		ops = ops[n:]
		if m.opt.OnPass != nil {
			m.opt.OnPass(len(tokens))
		}
	}
	return m.rest()
}

// layersOf is how many of ops belong to the next layers, at most most of them, and how many layers those are.
func layersOf(ops []op, most int) (n, layers int) {
	for n < len(ops) {
		if n == 0 || ops[n].layer != ops[n-1].layer {
			if layers == most {
				break
			}
			layers++
		}
		n++
	}
	return n, layers
}

// runOps commits ops in a command buffer of their own, behind what is in flight; work is what they count for pace.
func (m *Model) runOps(ops []op, work int) error {
	p, err := m.begin()
	if err != nil {
		return err
	}
	for i := range ops {
		if ops[i].level || i == 0 {
			p.Barrier()
		}
		p.Dispatch(ops[i].dispatch)
	}
	n, err := m.commit()
	if err == nil {
		m.runner.pace.work[n] = work
	}
	return err
}

// chunkLogits computes the logits of rows of the chunk computed last, from first on.
func (m *Model) chunkLogits(first, rows int, out []float32) error {
	for at := 0; at < rows; at += headRows {
		n := min(headRows, rows-at)
		ops, err := m.head(first+at, n)
		if err != nil {
			return err
		}
		err = m.runOps(ops, 0)
		if err == nil {
			err = m.rest()
		}
		closeOps(ops)
		if err == nil {
			err = m.chunk.logits.Buffer.Read(bytesOf(out[at*m.shape.Vocab:][:n*m.shape.Vocab]), 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setChunk makes the device start with tokens of s at s.Len. Nothing is in flight.
func (m *Model) setChunk(s *sequence, tokens []int32) error {
	if err := m.setStep(s, tokens[0]); err != nil {
		return err
	}
	buf := make([]byte, 4*len(tokens))
	for i, id := range tokens {
		binary.LittleEndian.PutUint32(buf[4*i:], uint32(id))
	}
	return m.chunk.ids.Buffer.Write(buf, 0)
}

// ExpertLoads is the rows of chunks that each expert of each layer with experts got so far; see state.Router.
func (m *Model) ExpertLoads() ([][]int64, error) {
	n := m.shape.Experts
	data := make([]byte, 4*len(m.weights.layers)*n)
	if err := m.scratch.loads.Buffer.Read(data, 0); err != nil {
		return nil, err
	}
	var all [][]int64
	for i := range m.weights.layers {
		if m.weights.layers[i].moe == nil {
			continue
		}
		rows := make([]int64, n)
		for e := range rows {
			rows[e] = int64(binary.LittleEndian.Uint32(data[4*(i*n+e):]))
		}
		all = append(all, rows)
	}
	return all, nil
}

// pace is how fast layers of chunks are computed, as far as the GPU's clock tells.
type pace struct {
	work    [2]int  // layers times tokens of the passes in flight; 0: not to be learnt from
	seconds float64 // for a layer and token; 0: unknown
}

// layers is how many layers of rows tokens a command buffer should hold.
func (p *pace) layers(rows int) int {
	if p.seconds == 0 {
		return blindLayers
	}
	return max(1, int(passSeconds/(p.seconds*float64(rows))))
}

// learn hears when pass n began and ended.
func (p *pace) learn(n int, start, end float64) {
	if work := p.work[n]; work > 0 && end > start {
		p.seconds = (end - start) / float64(work)
	}
	p.work[n] = 0
}
