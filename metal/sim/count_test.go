package sim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilypad/metal"
	"lilypad/metal/sim"
)

func TestCount(t *testing.T) {
	var tally sim.Tally
	d, err := sim.Open(sim.Options{Target: sim.Count, Tally: &tally})
	if err != nil {
		t.Fatal(err)
	}
	lib, err := d.NewLibrary("sum.metal", sumSource)
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	p, err := lib.NewPipeline("sum", metal.Uint(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const huge = 1 << 45 // no memory stands behind it
	x, err := d.NewBuffer(huge)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := d.NewBuffer(4000)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	l, err := d.NewDispatch(metal.Launch{Pipeline: p, Groups: metal.Line(1000), Threads: metal.Line(128), Bytes: make([]byte, 4),
		Buffers: []metal.Binding{{Buffer: x, Access: metal.In, Reads: huge - 64}, {Buffer: y, Access: metal.Out}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := d.NewRecording([]*metal.Dispatch{l, l, nil, l})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pass, err := d.NewPass()
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	for range 2 {
		if err := pass.Begin(); err != nil {
			t.Fatal(err)
		}
		pass.Dispatch(l)
		pass.Barrier()
		pass.Replay(r)
		if err := pass.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := pass.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	const dispatches, read, written = 8, 8 * (huge - 64), 8 * 4000
	want := sim.Tally{Passes: 2, Dispatches: dispatches, Barriers: 4, Levels: 6, Read: read, Written: written,
		Kernels: map[string]sim.KernelTally{"sum": {Dispatches: dispatches, Read: read, Written: written}}}
	if diff := cmp.Diff(want, tally); diff != "" {
		t.Error(diff)
	}
}
