package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	demomodel "lilypad/scripts/demo-model"
	"lilypad/worker"
	"lilypad/worker/checkpoint"
	"lilypad/worker/state"
)

// verifyBytes bounds the logits held at a time, and so the tokens of a chunk.
const verifyBytes = 256 << 20

func verifyCommand(e *env) *cobra.Command {
	var model, file, backend string
	var quantize int
	cmd := &cobra.Command{
		Use:   "verify --golden FILE [--model DIR]",
		Short: "Check a backend against recorded steps of a reference implementation",
		Long: `Feeds recorded tokens to the model (teacher forcing) and compares its log-probabilities with the recorded ones.

The tolerance follows the file's "dtype": float32 on the CPU backend allows 0.002. Otherwise 0.25 is allowed on tokens above
-6, and the greedy token must agree wherever the recorded margin is over 0.5. The exit code is 1 on a mismatch.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return failed(verify(e, model, file, backend, quantize))
		},
	}
	cmd.Flags().StringVar(&model, "model", "", "model directory (default: the built-in demo model)")
	cmd.Flags().StringVar(&file, "golden", "", "JSON file with recorded steps")
	cmd.Flags().StringVar(&backend, "backend", "", "compute backend (default: the best one here)")
	cmd.Flags().IntVar(&quantize, "quantize", 0, "quantise an unquantised model to 4 or 8 bits while loading")
	if err := cmd.MarkFlagRequired("golden"); err != nil {
		panic("BUG: " + err.Error())
	}
	return cmd
}

func verify(e *env, modelDir, file, backendName string, quantize int) error {
	runtime.LockOSThread() // where a GPU driver wants all its work
	defer runtime.UnlockOSThread()
	g, err := readGolden(file)
	if err != nil {
		return err
	}
	ck, err := openCheckpoint(modelDir, checkpoint.Options{Quantize: quantize, WeightsOnly: true})
	if err != nil {
		return err
	}
	defer ck.Close()
	backend, _, err := worker.OpenBackend(backendName, ck, worker.BackendOptions{Context: g.longest()})
	if err != nil {
		return err
	}
	defer backend.Close()
	cmp := &comparison{tol: toleranceFor(g.dtype, backend.Kernels())}
	for i := range g.cases {
		if err := scoreCase(backend, ck.Shape.Vocab, &g.cases[i], cmp); err != nil {
			return fmt.Errorf("%s: %w", g.cases[i].name, err)
		}
	}
	return cmp.report(e, ck.Name, backend.Kernels(), g)
}

// longest is the length of the longest sequence.
func (g *golden) longest() int {
	n := 0
	for _, c := range g.cases {
		n = max(n, len(c.tokens))
	}
	return n
}

// scoreCase computes one sequence, the prompt in chunks, and compares every recorded position.
func scoreCase(backend state.Backend, vocab int, gc *goldenCase, cmp *comparison) error {
	for i, id := range gc.tokens {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("token %d at position %d is outside the model's vocabulary of %d: is it this model's golden?", id, i, vocab)
		}
	}
	seq, err := backend.New()
	if err != nil {
		return err
	}
	defer seq.Close()
	if err := seq.Grow(len(gc.tokens)); err != nil {
		return err
	}
	chunk := max(1, min(backend.Chunk(), verifyBytes/(4*vocab), gc.prompt))
	logits := make([]float32, chunk*vocab)
	sum := 0.0
	for from, n := 0, 0; from < len(gc.tokens); from += n {
		n = 1
		if from < gc.prompt {
			n = min(chunk, gc.prompt-from)
		}
		if err := seq.Forward(gc.tokens[from:from+n], n, logits[:n*vocab]); err != nil {
			return err
		}
		for i := range n {
			sum += cmp.check(gc, from+i+1, logits[i*vocab:(i+1)*vocab])
		}
	}
	cmp.checkSum(gc, sum)
	return nil
}

// report prints the result and returns an error when something did not match.
func (c *comparison) report(e *env, model, kernels string, g *golden) error {
	dtype := g.dtype
	if dtype == "" {
		dtype = "not given"
	}
	fmt.Fprintf(e.stdout, "model      %s on %s\n", model, kernels)
	fmt.Fprintf(e.stdout, "golden     %d sequences, dtype %s, tolerance %g\n", len(g.cases), dtype, c.tol.logprob)
	fmt.Fprintf(e.stdout, "compared   %d steps\n", c.steps)
	if c.worstAt == "" {
		fmt.Fprintf(e.stdout, "worst      no difference\n")
	} else {
		fmt.Fprintf(e.stdout, "worst      %.6f (%s)\n", c.worst, c.worstAt)
	}
	if c.failures == 0 {
		fmt.Fprintln(e.stdout, "result     ok")
		return nil
	}
	fmt.Fprintf(e.stdout, "result     %d mismatches; the first: %s\n", c.failures, c.mismatch)
	return exitError{code: exitFailed}
}

// openCheckpoint opens a model directory, or the built-in demo model.
func openCheckpoint(dir string, opt checkpoint.Options) (*checkpoint.Checkpoint, error) {
	if dir == "" {
		return checkpoint.OpenFS(demomodel.FS(), demomodel.Name, opt)
	}
	return checkpoint.Open(dir, opt)
}
