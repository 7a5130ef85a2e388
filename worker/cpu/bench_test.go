package cpu

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"lilypad/worker/checkpoint"
)

// benchCheckpoints calls f, on a locked thread as in the worker, with the demo and, if LILYPAD_SYNTH names its directory, with a large random checkpoint.
func benchCheckpoints(b *testing.B, f func(b *testing.B, ck *checkpoint.Checkpoint)) {
	b.Run("demo", func(b *testing.B) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f(b, openDemo(b))
	})
	if dir := os.Getenv("LILYPAD_SYNTH"); dir != "" {
		b.Run("synth", func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f(b, openDir(b, dir))
		})
	}
}

func someTokens(n, vocab int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % vocab)
	}
	return tokens
}

func BenchmarkDecode(b *testing.B) {
	benchCheckpoints(b, func(b *testing.B, ck *checkpoint.Checkpoint) {
		m := newModel(b, ck, Options{})
		s := newSequence(b, m)
		logits := make([]float32, m.shape.Vocab)
		prompt := someTokens(64, m.shape.Vocab)
		forward(b, s, prompt, 1)
		snapshot, err := s.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		defer snapshot.Close()
		steps := 0
		for b.Loop() {
			if s.Len() == 256 { // decode between 64 and 256 tokens
				s.Close()
				next, err := snapshot.Resume()
				if err != nil {
					b.Fatal(err)
				}
				s = next.(*sequence)
			}
			if err := s.Forward(prompt[steps%64:steps%64+1], 1, logits); err != nil {
				b.Fatal(err)
			}
			steps++
		}
		s.Close()
		b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "tokens/s")
	})
}

func BenchmarkPrefill(b *testing.B) {
	for _, n := range []int{32, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			benchCheckpoints(b, func(b *testing.B, ck *checkpoint.Checkpoint) {
				m := newModel(b, ck, Options{})
				prompt := someTokens(n, m.shape.Vocab)
				logits := make([]float32, m.shape.Vocab)
				for b.Loop() {
					s := newSequence(b, m)
					if err := s.Forward(prompt, 1, logits); err != nil {
						b.Fatal(err)
					}
					s.Close()
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		})
	}
}
