package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilypad/protocol"
	"lilypad/worker/state/statetest"
)

// TestTurns: two decoders and a long prefill alternate; nobody waits for another to end.
func TestTurns(t *testing.T) {
	b := &statetest.Backend{}
	hold := make(chan struct{})
	var order []int32 // first token of each unit's sequence is its request
	e := fake(t, b, Options{}, protocol.LoadRequest{Parallel: 3})
	started := make(chan struct{})
	var once sync.Once
	b.Forward = func(tokens []int32) error {
		once.Do(func() { close(started); <-hold })
		order = append(order, int32(len(tokens)))
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() { ask(t, e, prompt(10, 1, 30)) })
	<-started
	wg.Go(func() { ask(t, e, prompt(20, 2, 30)) })
	wg.Go(func() { ask(t, e, prompt(128*6, 3, 1)) })
	wg.Go(func() { ask(t, e, prompt(40, 4, 1)) }) // over Parallel: waits
	eventually(t, "three wait", func() bool { st, _ := e.Stats(t.Context()); return st.Active+st.Waiting == 4 })
	close(hold)
	wg.Wait()
	last := map[string]int{}
	for i, n := range order {
		switch n {
		case 1:
			last["decode"] = i
		case 128:
			last["chunk"] = i
		case 40:
			last["waiting"] = i
		}
	}
	chunks := 0
	for _, n := range order[:last["decode"]] {
		if n == 128 {
			chunks++
		}
	}
	if chunks < 2 {
		t.Errorf("%d chunks before the last decode step, want them to alternate: %v", chunks, order)
	}
	firstDecode := slices.Index(order, 1)
	if firstDecode > last["chunk"] {
		t.Errorf("no decode step before the last chunk: %v", order)
	}
	if !slices.Contains(order, 40) {
		t.Errorf("the waiting request never ran: %v", order)
	}
}

// TestChunksShareTime: while others decode, prefill gets half of the time however long a chunk takes.
func TestChunksShareTime(t *testing.T) {
	d := &stub{name: "decode", n: 1000}
	p := &stub{name: "prefill", prefill: true, n: 1000}
	th := &thread{parallel: 2, opt: Options{ReaderDeadline: time.Hour}, active: []task{d, p}, after: func() {}}
	now := time.Now()
	if k := th.next(now); k != p {
		t.Fatalf("first turn is %v, want the prefill", k)
	}
	th.owed = 10 * time.Millisecond
	if k := th.next(now); k != d {
		t.Errorf("after a chunk the turn is %v, want the decode", k)
	}
	d.isFull = true
	if k := th.next(now); k != p {
		t.Errorf("with the decoder paused the turn is %v, want the prefill", k)
	}
	d.isFull = false
	th.active = []task{d, p, &stub{name: "other", n: 5}}
	th.owed = time.Hour
	for _, want := range []string{"decode", "other", "decode"} {
		k := th.next(now).(*stub)
		if k.name != want {
			t.Errorf("the turn is of %s, want %s", k.name, want)
		}
		th.owed = time.Hour
		th.unit(k)
	}
}

// stub is a task that does nothing n times.
type stub struct {
	request
	name            string
	prefill, isFull bool
	n               int
}

func (s *stub) step() (bool, error) { s.n--; return s.n == 0, nil }
func (s *stub) prefilling() bool    { return s.prefill }
func (s *stub) full() bool          { return s.isFull }
func (s *stub) free()               {}
func (s *stub) tell(error)          {}
func (s *stub) common() *request    { return &s.request }

func TestSlowReader(t *testing.T) {
	e := fake(t, &statetest.Backend{}, Options{ReaderBuffer: 8, ReaderDeadline: 50 * time.Millisecond}, protocol.LoadRequest{Parallel: 2})
	release := make(chan struct{})
	slow := make(chan error, 1)
	var seen atomic.Int64
	go func() {
		slow <- e.Generate(context.Background(), prompt(10, 1, 1000), func(ev protocol.Event) error {
			seen.Add(int64(len(ev.Tokens)))
			<-release
			return nil
		})
	}()
	ask(t, e, prompt(10, 2, 500)) // not held up by the other
	eventually(t, "the slow one is out", func() bool { st, _ := e.Stats(t.Context()); return st.Active == 0 })
	close(release)
	if err := <-slow; protocol.CodeOf(err) != protocol.CodeSlowReader {
		t.Errorf("error %v, want one of CodeSlowReader", err)
	}
	if n := seen.Load(); n > 20 {
		t.Errorf("%d tokens computed for a reader that takes none, want about the buffer of 8", n)
	}
}

// TestPausedReaderGoesOn: a reader that is late, but not too late, loses nothing.
func TestPausedReaderGoesOn(t *testing.T) {
	e := fake(t, &statetest.Backend{}, Options{ReaderBuffer: 4, ReaderDeadline: time.Hour}, protocol.LoadRequest{})
	var got answer
	err := e.Generate(t.Context(), prompt(10, 1, 60), func(ev protocol.Event) error {
		got.add(t, ev)
		time.Sleep(time.Millisecond)
		return nil
	})
	want := ask(t, fake(t, &statetest.Backend{}, Options{}, protocol.LoadRequest{}), prompt(10, 1, 60))
	if err != nil || !slices.Equal(got.ids(), want.ids()) {
		t.Errorf("%d tokens, error %v, want the %d of a fast reader", len(got.tokens), err, len(want.tokens))
	}
}

// TestCancelWhileWaiting: who waits for a place can leave before there is one.
func TestCancelWhileWaiting(t *testing.T) {
	e := fake(t, &statetest.Backend{}, Options{}, protocol.LoadRequest{Parallel: 1, Context: 1 << 24})
	running, stop := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		first <- e.Generate(running, prompt(10, 1, 1<<20), func(protocol.Event) error { return nil })
	}()
	eventually(t, "one is active", func() bool { st, _ := e.Stats(t.Context()); return st.Active == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		waiting <- e.Generate(ctx, prompt(10, 2, 1000), func(protocol.Event) error { t.Error("it ran"); return nil })
	}()
	eventually(t, "one waits", func() bool { st, _ := e.Stats(t.Context()); return st.Waiting == 1 })
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if st, _ := e.Stats(t.Context()); st.Active != 1 {
		t.Errorf("%d active, want the first still", st.Active)
	}
	stop()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestDrain(t *testing.T) {
	hold := make(chan struct{})
	b := &statetest.Backend{}
	e := fake(t, b, Options{}, protocol.LoadRequest{})
	b.Forward = func([]int32) error { <-hold; return nil }
	var wg sync.WaitGroup
	wg.Go(func() { ask(t, e, prompt(10, 1, 20)) })
	eventually(t, "one is active", func() bool { st, _ := e.Stats(t.Context()); return st.Active == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := e.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain with a request running: error %v, want the deadline's", err)
	}
	err := e.Generate(t.Context(), prompt(10, 2, 1), func(protocol.Event) error { return nil })
	if protocol.CodeOf(err) != protocol.CodeDraining {
		t.Errorf("a new request: error %v, want one of CodeDraining", err)
	}
	close(hold)
	if err := e.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := e.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUnload(t *testing.T) {
	b := &statetest.Backend{}
	e := fake(t, b, Options{}, protocol.LoadRequest{Parallel: 2})
	var wg sync.WaitGroup
	for i := range int32(4) {
		wg.Go(func() {
			err := e.Generate(context.Background(), prompt(10, i, 1_000_000), func(protocol.Event) error { return nil })
			if code := protocol.CodeOf(err); code != protocol.CodeDraining {
				t.Errorf("running request %d: error %v, want one of CodeDraining", i, err)
			}
		})
	}
	eventually(t, "all are there", func() bool { st, _ := e.Stats(t.Context()); return st.Active == 2 && st.Waiting == 2 })
	for range 3 {
		wg.Go(func() {
			if err := e.Unload(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if h, err := e.Hello(t.Context()); err != nil || h.Loaded {
		t.Errorf("hello %+v, error %v, want an answer and nothing loaded", h, err)
	}
	if st, err := e.Stats(t.Context()); err != nil || st.StateBytes != 0 || st.Sessions != 0 || st.Decoded == 0 {
		t.Errorf("stats %+v, error %v, want counters and no states", st, err)
	}
	if _, err := e.Tokenize(t.Context(), nil); protocol.CodeOf(err) != protocol.CodeNotLoaded {
		t.Errorf("tokenize: error %v, want one of CodeNotLoaded", err)
	}
	if _, err := e.Load(t.Context(), protocol.LoadRequest{}, nil); err == nil {
		t.Error("a Load after Unload went well")
	}
}

// TestShortChunksInACrowd: a request that decodes waits for no long chunk of another.
func TestShortChunksInACrowd(t *testing.T) {
	d, p := &stub{name: "decode"}, &stub{name: "prefill", prefill: true}
	th := &thread{active: []task{p, d}}
	if !th.crowd(p) || th.crowd(d) {
		t.Errorf("crowd is %v for the prefill and %v for the only decode, want true and false", th.crowd(p), th.crowd(d))
	}
	for _, c := range []struct {
		chunk, alone, crowded int
	}{{2048, 2048, 512}, {128, 128, 128}} {
		pl := &plan{chunk: c.chunk, total: 5000, interval: 8192}
		if alone, crowded := pl.next(0, false).N, pl.next(0, true).N; alone != c.alone || crowded != c.crowded {
			t.Errorf("chunks of %d tokens alone and %d in a crowd, want %d and %d", alone, crowded, c.alone, c.crowded)
		}
	}
}
