package apple

import (
	"math/rand/v2"
	"testing"

	"lilypad/metal"
)

// counter is a runtime that only counts, so that allocations and time are the driver's own.
func counter(counts *[selectorCount]int) *objc {
	r := &objc{version: "15.1", call: func(function, []uintptr) uintptr { return 1 }}
	for i := range r.selectors {
		r.selectors[i] = uintptr(i)
	}
	r.message = func(words []uintptr) uintptr {
		s := selector(words[1])
		counts[s]++
		if s == selStatus {
			return statusCompleted
		}
		return 1
	}
	return r
}

func total(counts *[selectorCount]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// tokenOps is as many dispatches and barriers as the plan allows a token, every other dispatch with another pipeline.
func tokenOps() []metal.DriverDispatch {
	var ops []metal.DriverDispatch
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 345 {
		n := 1 + random.IntN(8)
		ops = append(ops, &dispatch{launch{
			pipeline: uintptr(1 + i%2), buffers: make([]uintptr, n), offsets: make([]uint, n), bytes: make([]byte, 64),
			groups: metal.Line(100), threads: metal.Line(64),
		}})
		if i < 305 {
			ops = append(ops, nil)
		}
	}
	return ops
}

func TestMessagesPerDispatch(t *testing.T) {
	full := launch{pipeline: 1, buffers: make([]uintptr, 3), offsets: make([]uint, 3), bytes: make([]byte, 4)}
	for _, c := range []struct {
		name string
		last uintptr // pipeline set before
		l    launch
		want int
	}{
		{"another pipeline", 2, full, 4},
		{"same pipeline", 1, full, 3},
		{"no constants", 2, launch{pipeline: 1, buffers: full.buffers, offsets: full.offsets}, 3},
		{"no buffers", 2, launch{pipeline: 1, bytes: full.bytes}, 3},
		{"nothing at all", 1, launch{pipeline: 1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var counts [selectorCount]int
			e := &encoder{r: counter(&counts), object: 1, pipeline: c.last}
			e.dispatch(&c.l)
			if n := total(&counts); n != c.want {
				t.Errorf("%d messages, want %d", n, c.want)
			}
		})
	}
}

// A token stays within 1,750 messages, those of its pass included, and allocates nothing from Begin to Wait.
func TestMessagesAndAllocationsPerToken(t *testing.T) {
	var counts [selectorCount]int
	d := &driver{r: counter(&counts), thread: 1, queue: 1, fence: 1}
	ops := tokenOps()
	record, err := d.NewRecording(ops)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.NewPass()
	if err != nil {
		t.Fatal(err)
	}
	for name, encode := range map[string]func(){
		"replayed": func() { p.Replay(record) },
		"one by one": func() {
			for _, op := range ops {
				if op == nil {
					p.Barrier()
					continue
				}
				op.SetGroups(metal.Line(7))
				p.Dispatch(op)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var failed error
			pass := func() {
				counts = [selectorCount]int{}
				for _, step := range [...]func() error{p.Begin, func() error { encode(); return nil }, p.Commit, p.Wait} {
					if err := step(); err != nil {
						failed = err
					}
				}
			}
			allocations := testing.AllocsPerRun(20, pass)
			if failed != nil {
				t.Fatal(failed)
			}
			if allocations != 0 {
				t.Errorf("%v allocations per token, want none", allocations)
			}
			if counts[selDispatchThreadgroups] != 345 || counts[selMemoryBarrier] != 305 {
				t.Errorf("%d dispatches and %d barriers", counts[selDispatchThreadgroups], counts[selMemoryBarrier])
			}
			if n := total(&counts); n > 1750 {
				t.Errorf("%d messages per token, want at most 1,750", n)
			}
			hot := counts[selSetPipeline] + counts[selSetBuffers] + counts[selSetBytes] + counts[selDispatchThreadgroups]
			if hot > 4*345 {
				t.Errorf("%d messages for 345 dispatches, want at most 4 each", hot)
			}
		})
	}
}

func BenchmarkDispatch(b *testing.B) {
	var counts [selectorCount]int
	e := &encoder{r: counter(&counts), object: 1}
	list := [2]launch{}
	for i := range list {
		list[i] = launch{pipeline: uintptr(i + 1), buffers: make([]uintptr, 5), offsets: make([]uint, 5), bytes: make([]byte, 64)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e.dispatch(&list[i%2])
	}
}

func BenchmarkToken(b *testing.B) {
	var counts [selectorCount]int
	d := &driver{r: counter(&counts), thread: 1, queue: 1, fence: 1}
	record, _ := d.NewRecording(tokenOps())
	p, _ := d.NewPass()
	b.ReportAllocs()
	for b.Loop() {
		if p.Begin() != nil {
			b.Fatal("begin")
		}
		p.Replay(record)
		if p.Commit() != nil || p.Wait() != nil {
			b.Fatal("commit")
		}
	}
}
