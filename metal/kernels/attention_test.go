package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
)

const tableStart = 3 // entry of the block table at which the sequence's begins

// cacheFixture is a sequence in a random cache: blocks in random order, some of them other sequences'.
type cacheFixture struct {
	shape  kernels.AttentionShape
	kv     kernels.Ref
	table  kernels.Ref
	blocks []uint32
}

func newCache(a *fixture.Arena, s kernels.AttentionShape, length int, deviation float64) *cacheFixture {
	used := (length + 63) / 64
	s.Blocks, s.Entries = used+2, tableStart+used
	c := &cacheFixture{shape: s}
	for _, b := range a.Rand.Perm(s.Blocks)[:used] {
		c.blocks = append(c.blocks, uint32(b))
	}
	n := s.Blocks * s.Layers * 2 * s.KVHeads * 64 * s.HeadDim
	c.kv = a.PutBfloats(a.Normal(n, 0, deviation))
	c.table = a.PutUints(append([]uint32{1 << 30, 1 << 30, 1 << 30}, c.blocks...)...)
	return c
}

// row is where a head's keys (kind 0) or values (1) of token t lie.
func (c *cacheFixture) row(t, kind, head int) kernels.Ref {
	s := c.shape
	row := (((int(c.blocks[t/64])*s.Layers+s.Layer)*2+kind)*s.KVHeads+head)*64 + t%64
	return c.kv.At(int64(2 * row * s.HeadDim))
}

// attentionFixture is an attention over a cache, with random queries and gates.
type attentionFixture struct {
	kernels.Attention
	*cacheFixture
	queries, proj []float32
}

// newAttention attends to length tokens; scores have about the deviation given.
func newAttention(a *fixture.Arena, s kernels.AttentionShape, length int, deviation float64) *attentionFixture {
	f := &attentionFixture{cacheFixture: newCache(a, s, length, 1)}
	n := s.Heads * s.HeadDim
	f.queries = a.Normal(n, 0, deviation/math.Sqrt(float64(s.HeadDim)))
	f.proj = a.Normal(5+2*n, 0, 1)
	f.Attention = kernels.Attention{AttentionShape: f.shape, Queries: a.PutFloats(f.queries), Proj: a.PutFloats(f.proj), Q: 5,
		KV: f.kv, Table: f.table, Step: a.PutUints(1, uint32(length-1), 0, 0, tableStart, 0, 0, 0), Out: a.Room(kernels.VectorBytes(n)),
		MaxLength: length}
	return f
}

// check compares the outputs that the arena holds with the twin's.
func (f *attentionFixture) check(a *fixture.Arena) error {
	s := f.shape
	got := a.Vector(f.Out, s.Heads*s.HeadDim)
	for h := range s.Heads {
		rows := func(kind int) func(int) []float32 {
			return func(t int) []float32 { return a.Bfloats(f.row(t, kind, h/(s.Heads/s.KVHeads)), s.HeadDim) }
		}
		gate := f.proj[f.Q+(2*h+1)*s.HeadDim:][:s.HeadDim]
		want := ref.Attend(f.queries[h*s.HeadDim:][:s.HeadDim], gate, f.MaxLength, rows(0), rows(1))
		if err := fixture.CompareFloats(got[h*s.HeadDim:][:s.HeadDim], want, 1e-5); err != nil {
			return fmt.Errorf("head %d: %w", h, err)
		}
	}
	return nil
}

// dispatches prepares the attention by a number of splits.
func (f *attentionFixture) dispatches(t *testing.T, set *kernels.Set, a *fixture.Arena, splits int) []*metal.Dispatch {
	t.Helper()
	at := f.Attention
	at.Splits = splits
	if splits > 1 {
		at.Partials = a.Room(f.shape.PartialBytes(splits))
	}
	op, err := set.Attention(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(op.Close)
	if splits == 1 {
		return []*metal.Dispatch{op}
	}
	merge, err := set.AttentionMerge(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(merge.Close)
	return []*metal.Dispatch{op, nil, merge}
}

// run uploads the arena, attends, and downloads it.
func (f *attentionFixture) run(t *testing.T, device *metal.Device, set *kernels.Set, a *fixture.Arena, splits int) {
	t.Helper()
	ops := f.dispatches(t, set, a, splits)
	if err := a.Upload(); err != nil {
		t.Fatal(err)
	}
	if err := fixture.Run(device, ops...); err != nil {
		t.Fatal(err)
	}
	if err := a.Download(); err != nil {
		t.Fatal(err)
	}
}

func shapeOf(heads, kvHeads, dim int) kernels.AttentionShape {
	return kernels.AttentionShape{Heads: heads, KVHeads: kvHeads, HeadDim: dim, Rotary: dim / 4, Layer: 1, Layers: 2}
}

func TestAttention(t *testing.T) {
	for _, c := range []struct {
		name   string
		shape  kernels.AttentionShape
		length int
	}{
		{"35B, first token", shapeOf(16, 2, 256), 1},
		{"35B", shapeOf(16, 2, 256), 65},
		{"35B, full block", shapeOf(16, 2, 256), 64},
		{"27B", shapeOf(24, 4, 256), 63},
		{"397B", shapeOf(32, 2, 256), 33},
		{"demo", shapeOf(4, 2, 64), 300},
		{"demo, long", shapeOf(4, 2, 64), 1000},
		{"ratio 1", shapeOf(3, 3, 32), 129},
		{"ratio 3", shapeOf(3, 1, 128), 300},
		{"ratio 5", shapeOf(10, 2, 64), 63},
		{"ratio 8, narrow", shapeOf(8, 1, 32), 127},
		{"ratio 20", shapeOf(20, 1, 32), 40},
		{"more splits than tokens", shapeOf(2, 1, 64), 5},
	} {
		for _, splits := range []int{1, 2, 7} {
			t.Run(fmt.Sprintf("%s, %d tokens, %d splits", c.name, c.length, splits), func(t *testing.T) {
				device, set, arena := newFixture(t, 8<<20, uint64(c.length))
				f := newAttention(arena, c.shape, c.length, 2)
				f.run(t, device, set, arena, splits)
				if err := f.check(arena); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Scores far from zero, where exp overflows without its shift, and all weight lies on a few tokens.
func TestAttentionLargeScores(t *testing.T) {
	for _, deviation := range []float64{0, 300, 1e5} {
		for _, splits := range []int{1, 5} {
			t.Run(fmt.Sprint(deviation, " ", splits), func(t *testing.T) {
				device, set, arena := newFixture(t, 4<<20, 21)
				f := newAttention(arena, shapeOf(4, 2, 64), 200, deviation)
				f.run(t, device, set, arena, splits)
				if err := f.check(arena); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A recording for longer contexts gives the bits of a shorter one's position, whatever the cache holds beyond it, and again
// in the next run.
func TestAttentionBits(t *testing.T) {
	for _, splits := range []int{1, 6} {
		t.Run(fmt.Sprint(splits), func(t *testing.T) {
			device, set, arena := newFixture(t, 4<<20, 22)
			f := newAttention(arena, shapeOf(8, 2, 64), 300, 2)
			f.run(t, device, set, arena, splits)
			want := slices.Clone(arena.Bytes(f.Out, kernels.VectorBytes(len(f.queries))))
			for h := range 2 { // of the block that is not full
				for _, kind := range []int{0, 1} {
					nan := slices.Repeat([]float32{float32(math.NaN())}, 64)
					for token := 300; token < 320; token++ {
						putBfloats(arena, f.row(token, kind, h), nan)
					}
				}
			}
			f.run(t, device, set, arena, splits)
			if !bytes.Equal(want, arena.Bytes(f.Out, int64(len(want)))) {
				t.Error("what lies beyond the length changes bits")
			}
		})
	}
}

func TestAttentionSplits(t *testing.T) {
	for _, c := range []struct {
		shape               kernels.AttentionShape
		length, cores, want int
	}{
		{shapeOf(16, 2, 256), 256, 40, 1},
		{shapeOf(16, 2, 256), 257, 132, 16},
		{shapeOf(16, 2, 256), 1024, 40, 20},
		{shapeOf(16, 2, 256), 32768, 132, 66},
		{shapeOf(16, 2, 256), 32768, 0, 16},
		{shapeOf(24, 4, 256), 262144, 8, 2},
		{shapeOf(2, 2, 64), 262144, 1000, 256},
		{shapeOf(64, 64, 64), 1024, 8, 2},
	} {
		if got := kernels.AttentionSplits(c.shape, c.length, c.cores); got != c.want {
			t.Errorf("%d tokens, %d KV heads, %d cores: %d splits, want %d", c.length, c.shape.KVHeads, c.cores, got, c.want)
		}
	}
}

func TestAttentionRefusals(t *testing.T) {
	set := countingSet(t)
	good := kernels.Attention{AttentionShape: shapeOf(4, 2, 64), Splits: 2, MaxLength: 64}
	good.Blocks, good.Entries = 1, 1
	for _, c := range []struct {
		name string
		edit func(a *kernels.Attention)
		want string
	}{
		{"dims", func(a *kernels.Attention) { a.HeadDim = 96 }, "heads of 96 dims"},
		{"ratio", func(a *kernels.Attention) { a.KVHeads = 3 }, "4 query heads for 3 KV heads"},
		{"too many heads", func(a *kernels.Attention) { a.Heads, a.KVHeads = 33, 1 }, "at most 32"},
		{"odd RoPE", func(a *kernels.Attention) { a.Rotary = 5 }, "RoPE over 5 of 64"},
		{"layer", func(a *kernels.Attention) { a.Layer = 2 }, "layer 2 of 2"},
		{"no splits", func(a *kernels.Attention) { a.Splits = 0 }, "0 splits"},
		{"too long", func(a *kernels.Attention) { a.MaxLength = 65 }, "65 tokens in a cache of 64"},
		{"alignment", func(a *kernels.Attention) { a.KV.Offset = 8 }, "cache at 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := good
			c.edit(&a)
			if _, err := set.Attention(a); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if _, err := set.AttentionMerge(a); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("merging: error %v, want %q in it", err, c.want)
			}
		})
	}
}
