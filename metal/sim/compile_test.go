package sim_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

func TestCompilerNamesTheLine(t *testing.T) {
	d := simtest.Open(t, sim.Options{})
	_, err := d.NewLibrary("k.metal", kernelOf("y[tid] =\nwrong;"))
	var refusal *metal.CompileError
	if !errors.As(err, &refusal) || refusal.Line != 6 || !strings.Contains(refusal.Text, "undeclared identifier 'wrong'") {
		t.Errorf("got %v, want clang's complaint about line 6", err)
	}
}

func TestThreadgroupMemoryHasALimit(t *testing.T) {
	d := simtest.Open(t, sim.Options{})
	for _, c := range []struct {
		words string
		bytes int // 0: refused
	}{{"8192", 32768}, {"8200", 0}} {
		lib, err := d.NewLibrary("k.metal", kernelOf("threadgroup uint s["+c.words+"];\ns[x[tid]] = tid;\nthreadgroup_barrier(mem_flags::mem_threadgroup);\ny[tid] = s[x[tid] * n];"))
		if err != nil {
			t.Fatal(err)
		}
		defer lib.Close()
		p, err := lib.NewPipeline("k")
		if err != nil {
			if c.bytes > 0 || !strings.Contains(err.Error(), "32800 bytes of threadgroup memory") {
				t.Errorf("%s words: %v", c.words, err)
			}
			continue
		}
		defer p.Close()
		if p.ThreadgroupMemory() != c.bytes {
			t.Errorf("%s words: %d bytes, want %d", c.words, p.ThreadgroupMemory(), c.bytes)
		}
	}
}

// TestCacheIsShared compiles one kernel on several devices at once, as several processes might.
func TestCacheIsShared(t *testing.T) {
	dir := t.TempDir()
	source := kernelOf("y[tid] = x[tid] + 7;")
	compile := func(d *metal.Device) error {
		lib, err := d.NewLibrary("k.metal", source)
		if err != nil {
			return err
		}
		defer lib.Close()
		p, err := lib.NewPipeline("k")
		if err != nil {
			return err
		}
		p.Close()
		return nil
	}
	var group sync.WaitGroup
	for range 3 {
		d := simtest.Open(t, sim.Options{CacheDir: dir})
		group.Go(func() {
			if err := compile(d); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	before := fileTimes(t, dir)
	if err := compile(simtest.Open(t, sim.Options{CacheDir: dir})); err != nil {
		t.Fatal(err)
	}
	after := fileTimes(t, dir)
	if len(before) != len(after) || len(after) == 0 {
		t.Errorf("%d files after the first use, %d after the next", len(before), len(after))
	}
	for name, time := range before {
		if after[name] != time {
			t.Errorf("%s was made again", name)
		}
	}
}

// fileTimes are the modification times of a directory's files by name.
func fileTimes(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int64{}
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left over", e.Name())
		}
		if !info.IsDir() {
			times[e.Name()] = info.ModTime().UnixNano()
		}
	}
	return times
}
