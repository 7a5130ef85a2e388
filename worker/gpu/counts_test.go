package gpu

import (
	"runtime"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/sim"
	"lilypad/protocol"
	"lilypad/worker/model"
)

// counting opens a device that runs nothing and allocates no buffers.
func counting(t *testing.T) *metal.Device {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d, err := sim.Open(sim.Options{Target: sim.Count})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestCounts35B counts what one token of Qwen3.6-35B-A3B takes, at several lengths of context.
func TestCounts35B(t *testing.T) {
	ck, err := Synthetic("qwen3.6-35b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t, counting(t), ck, Options{Context: 32768, Empty: true})
	s := &ck.Shape
	if weights, want := m.WeightBytes(), s.WeightBytes(model.MLX4); weights < want || weights > want+want/100 {
		t.Errorf("%d bytes of weights, want %d and at most 1%% more", weights, want)
	}
	seq, err := m.newSequence(0)
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	for _, position := range []int{511, 2047, 8191, 32767} { // the longest of each route of attention
		if err := seq.Grow(position + 1); err != nil {
			t.Fatal(err)
		}
		ops, err := m.tokenOps(position, sampled)
		if err != nil {
			t.Fatal(err)
		}
		levels, reads := 0, int64(0)
		for i := range ops {
			if ops[i].level || i == 0 {
				levels++
			}
			for _, b := range ops[i].dispatch.Launch().Buffers {
				if b.Access&metal.In != 0 {
					reads += max(b.Reads, 0)
				}
			}
		}
		// Recurrent states, conv windows and keys and values of what came before.
		kv := int64(position) * s.KVBytes(2)
		least := s.DecodeBytes(model.MLX4) + s.StateBytes(2) + kv
		t.Logf("position %d: %d dispatches in %d levels, %.4f GB read, %.4f at least", position, len(ops), levels, float64(reads)/1e9, float64(least)/1e9)
		if len(ops) > 350 || levels > 310 {
			t.Errorf("position %d: %d dispatches in %d levels, want at most 350 in 310", position, len(ops), levels)
		}
		if float64(reads) > 1.02*float64(least) || reads < least {
			t.Errorf("position %d: %d bytes read, want at least %d and at most 2 %% more", position, reads, least)
		}
	}
}

// TestChunkCounts35B counts what chunks of a prompt take at the same shape: dispatches of a layer, tiles of experts, and bytes
// that cross the bus at least once.
func TestChunkCounts35B(t *testing.T) {
	ck, err := Synthetic("qwen3.6-35b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t, counting(t), ck, Options{Context: 65536, Empty: true})
	s := &ck.Shape
	seq, err := m.newSequence(0)
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	if err := seq.Grow(65536); err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{9, 512, 2048} {
		if n, err := m.chunkRoom(rows); err != nil || n != rows {
			t.Fatal(n, err)
		}
		c, err := m.newChunkOps(rows, 65536)
		if err != nil {
			t.Fatal(err)
		}
		perLayer := map[int]int{}
		for i := range c.ops {
			o := &c.ops[i]
			perLayer[o.layer]++
			launch := o.dispatch.Launch()
			switch spec := o.spec.(type) {
			case kernels.ExpertsUpRows:
				g := spec.Grouped
				pairs := rows * s.ExpertsPerToken
				most := (pairs+g.Height-1)/g.Height + min(s.Experts, pairs) // whatever the experts get: a tile that is not full, or an empty one, for each
				if launch.Groups.Y > most {
					t.Errorf("%d tokens, layer %d: %d tiles of %d rows, want at most %d", rows, o.layer, launch.Groups.Y, g.Height, most)
				}
			case kernels.PrefillAttention:
				queries := rows * s.Heads / s.KVHeads
				if tiles := launch.Groups.X * launch.Groups.Y; tiles != s.KVHeads*((queries+63)/64) {
					t.Errorf("%d tokens, layer %d: %d passes over keys and values, want one for each of %d heads and 64 queries", rows, o.layer, tiles, s.KVHeads)
				}
				if read := launch.Buffers[1].Reads; read != 65536*s.KVBytes(2)/int64(m.attnLayers) {
					t.Errorf("%d tokens, layer %d: %d bytes of keys and values", rows, o.layer, read)
				}
			}
		}
		for layer, n := range perLayer {
			if n > 20 {
				t.Errorf("%d tokens: %d dispatches in layer %d, want at most 20", rows, n, layer)
			}
		}
		t.Logf("%d tokens: %d dispatches, %d in a layer with DeltaNet and %d in one with attention", rows, len(c.ops), perLayer[0], perLayer[3])
		closeOps(c.ops)
	}
}

// TestEncodingAllocatesNothing goes through the steps of an answer, each started before the one before has ended.
func TestEncodingAllocatesNothing(t *testing.T) {
	ck, err := Synthetic("qwen3.6-35b-a3b:4")
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t, counting(t), ck, Options{Context: 4096, Empty: true})
	s, err := m.newSequence(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	logits := make([]float32, m.Vocab())
	if err := s.Grow(200); err != nil {
		t.Fatal(err)
	}
	step := func() {
		if id, err := s.Step(0, protocol.Sampling{}, logits); id != 0 || err != nil {
			t.Fatal(id, err)
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations for each token", n)
	}
	if s.len != 102 {
		t.Errorf("%d tokens, want 102", s.len)
	}
}
