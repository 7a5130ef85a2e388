package kernels_test

import (
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// pool is the bytes of weights that a benchmark walks through, more than any cache holds.
const pool = 512 << 20

// timed replays a recording of a chain of dispatches, made by prepare for copies 0..n-1 of the weights, and reports the
// time and bandwidth of one, which reads bytes.
func timed(b *testing.B, d *metal.Device, n int, bytes int64, prepare func(i int) (*metal.Dispatch, error)) {
	var ops []*metal.Dispatch
	for i := range n {
		op, err := prepare(i)
		if err != nil {
			b.Fatal(err)
		}
		defer op.Close()
		ops = append(ops, op, nil)
	}
	r, err := d.NewRecording(ops)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	p, err := d.NewPass()
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	var seconds float64
	rounds := 0
	for b.Loop() {
		if err := p.Begin(); err != nil {
			b.Fatal(err)
		}
		p.Replay(r)
		if err := p.Commit(); err != nil {
			b.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			b.Fatal(err)
		}
		start, end := p.Times()
		seconds += end - start
		rounds++
	}
	each := seconds / float64(rounds*n)
	b.ReportMetric(each*1e6, "us/dispatch")
	b.ReportMetric(float64(bytes)/each/1e9, "GB/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLinear runs the matrices of the 35B shape. On sim:cpu they only show that it works: run it with LILYPAD_SIM=cuda.
func BenchmarkLinear(b *testing.B) {
	const normed, residual, swiglu, best = 0, 1, 2, 3
	for _, bb := range []struct {
		name             string
		rows, cols, bits int
		end              int
	}{
		{"delta-in", 12352, 2048, 4, normed},
		{"attention-in", 9216, 2048, 4, normed},
		{"out", 2048, 4096, 4, residual},
		{"head", 248320, 2048, 4, best},
		{"router", 257, 2048, 8, normed},
		{"shared-up", 1024, 2048, 4, swiglu},
	} {
		b.Run(bb.name, func(b *testing.B) {
			d := simtest.Open(b, sim.Options{Target: sim.CPU})
			if d.Info().Driver == "sim:cpu" {
				b.Skip("the simulator on the CPU has no speed to measure")
			}
			set := kernels.New(d)
			defer set.Close()
			f := kernels.Format{Bits: bb.bits, Group: 64}
			each := f.CodesBytes(bb.rows, bb.cols) + f.PairsBytes(bb.rows, bb.cols)
			n := int(min(max(2, pool/each), 200))
			w, err := d.NewBuffer(int64(n) * each)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			v, err := d.NewBuffer(64 << 20)
			if err != nil {
				b.Fatal(err)
			}
			defer v.Close()
			at := func(mib int64) kernels.Ref { return kernels.Ref{Buffer: v, Offset: mib << 20} }
			timed(b, d, n, each, func(i int) (*metal.Dispatch, error) {
				m := kernels.Matrix{Format: f, Rows: bb.rows, Cols: bb.cols, Buffer: w, Codes: int64(i) * each}
				m.Pairs = m.Codes + f.CodesBytes(bb.rows, bb.cols)
				l := kernels.Linear{W: m, X: at(0), Out: at(1), SwiGLU: bb.end == swiglu}
				if bb.end != residual {
					l.Norm = &kernels.Norm{Squares: at(8), Parts: bb.cols / 8, Eps: 1e-6}
				} else {
					l.Residual = &kernels.Residual{H: at(9), Gain: at(10), Gained: at(11), Squares: at(12)}
				}
				if bb.end == best {
					l.Best = &kernels.Best{Partials: at(13), Allowed: at(14)}
				}
				return set.Linear(l)
			})
		})
	}
}

// BenchmarkCopy is the bandwidth to compare with: bytes read and written.
func BenchmarkCopy(b *testing.B) {
	d := simtest.Open(b, sim.Options{Target: sim.CPU})
	if d.Info().Driver == "sim:cpu" {
		b.Skip("the simulator on the CPU has no speed to measure")
	}
	set := kernels.New(d)
	defer set.Close()
	w, err := d.NewBuffer(2 * pool)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	timed(b, d, 4, 2*pool, func(int) (*metal.Dispatch, error) {
		return set.Copy(kernels.Ref{Buffer: w}, kernels.Ref{Buffer: w, Offset: pool}, pool)
	})
}
