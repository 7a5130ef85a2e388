package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
)

func TestAttentionPrep(t *testing.T) {
	rotary := func(s kernels.AttentionShape, n int) kernels.AttentionShape {
		s.Rotary = n
		return s
	}
	for _, c := range []struct {
		name     string
		shape    kernels.AttentionShape
		position int
	}{
		{"35B, first token", shapeOf(16, 2, 256), 0},
		{"35B", shapeOf(16, 2, 256), 577},
		{"27B", shapeOf(24, 4, 256), 63},
		{"demo", shapeOf(4, 2, 64), 64},
		{"all dims turn", rotary(shapeOf(3, 3, 32), 32), 1023},
		{"two dims turn", rotary(shapeOf(4, 1, 128), 2), 70},
		{"six dims turn", rotary(shapeOf(2, 1, 32), 6), 511},
	} {
		t.Run(c.name, func(t *testing.T) {
			device, set, arena := newFixture(t, 32<<20, uint64(c.position)+1)
			f := newPrep(arena, c.shape, c.position, 1e7)
			op, err := set.AttentionPrep(f.AttentionPrep)
			runFixture(t, device, arena, op, err)
			if err := f.check(arena); err != nil {
				t.Error(err)
			}
		})
	}
}

// prepFixture is a token's projections and the cache that they go to.
type prepFixture struct {
	kernels.AttentionPrep
	*cacheFixture
	proj, qGain, kGain []float32
	position           int
	theta              float64
}

func newPrep(a *fixture.Arena, s kernels.AttentionShape, position int, theta float64) *prepFixture {
	f := &prepFixture{cacheFixture: newCache(a, s, position+1, 1), position: position, theta: theta}
	n, keys := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	f.Q, f.K = 1, 1+2*n+3
	f.V = f.K + keys
	f.proj = a.Normal(f.V+keys, 0, 3)
	f.qGain, f.kGain = a.Normal(s.HeadDim, 1, 0.2), a.Normal(s.HeadDim, 1, 0.2)
	coarse, fine := kernels.RopeTables(s.Rotary, theta, position+1)
	f.AttentionPrep = kernels.AttentionPrep{AttentionShape: f.shape, Proj: a.PutFloats(f.proj), Q: f.Q, K: f.K, V: f.V,
		QGain: a.PutFloats(f.qGain), KGain: a.PutFloats(f.kGain), Eps: 1e-6, Coarse: a.PutFloats(coarse), Fine: a.PutFloats(fine), Positions: position + 1,
		KV: f.kv, Table: f.table, Step: a.PutUints(1, uint32(position), 0, 0, tableStart, 0, 0, 0), Out: a.Room(int64(4 * n))}
	return f
}

func (f *prepFixture) check(a *fixture.Arena) error {
	s := f.shape
	head := func(at int, gain []float32, scale float64) []float32 {
		return ref.Head(f.proj[at:at+s.HeadDim], gain, f.Eps, s.Rotary, f.theta, f.position, scale)
	}
	for h := range s.Heads {
		want := head(f.Q+2*h*s.HeadDim, f.qGain, 1/math.Sqrt(float64(s.HeadDim)))
		if err := fixture.CompareFloats(a.Floats(f.Out.At(int64(4*h*s.HeadDim)), s.HeadDim), want, 1e-5); err != nil {
			return fmt.Errorf("query head %d: %w", h, err)
		}
	}
	for h := range s.KVHeads {
		got := a.Bfloats(f.row(f.position, 0, h), s.HeadDim)
		if err := fixture.CompareBfloats(got, head(f.K+h*s.HeadDim, f.kGain, 1), 2, 1e-3); err != nil {
			return fmt.Errorf("key head %d: %w", h, err)
		}
		if err := fixture.CompareBfloats(a.Bfloats(f.row(f.position, 1, h), s.HeadDim), f.proj[f.V+h*s.HeadDim:][:s.HeadDim], 0, 0); err != nil {
			return fmt.Errorf("value head %d: %w", h, err)
		}
	}
	return nil
}

// The tables, put together as the kernel does, turn far positions as exactly as near ones.
func TestRopeTables(t *testing.T) {
	const rotary, theta = 64, 1e7
	for _, position := range []int{0, 511, 512, 200000, 262143} {
		coarse, fine := kernels.RopeTables(rotary, theta, position+1)
		for i := range rotary / 2 {
			a, b := coarse[(position/512*rotary/2+i)*2:], fine[(position%512*rotary/2+i)*2:]
			cos, sin := float64(a[0]*b[0]-a[1]*b[1]), float64(a[1]*b[0]+a[0]*b[1])
			wantSin, wantCos := math.Sincos(float64(position) * math.Pow(theta, -2*float64(i)/rotary))
			if d := max(math.Abs(sin-wantSin), math.Abs(cos-wantCos)); d > 2e-7 {
				t.Errorf("position %d, pair %d: %.3g off", position, i, d)
			}
		}
	}
}
