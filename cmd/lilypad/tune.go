package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"lilypad/protocol"
	"lilypad/supervisor/config"
	"lilypad/worker"
	"lilypad/worker/checkpoint"
	"lilypad/worker/gpu"
)

// tuneOptions are the flags of lilypad tune beside those of the service.
type tuneOptions struct {
	synthetic string
	out       string
	at        int
}

func tuneCommand(e *env) *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Measure how this GPU's kernels are best spread, and keep that",
		Long: `Tries other ways to spread each matrix of a token over the GPU, each in whole tokens and beside the best so far, and writes those that
win into the data directory. The service uses them from its next start on, as long as GPU and system stay the same; delete the
file to go back. Sums are then added in another order, so states of before are not taken up again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags(), e.vars)
			if err != nil {
				return err
			}
			if o.at < 1 || o.at > 100000 {
				return fmt.Errorf("--at is %d; it must be from 1 to 100000 tokens", o.at)
			}
			if o.out == "" {
				o.out = filepath.Join(cfg.Data, protocol.TuningFile)
			}
			return failed(tune(e, cfg, o))
		},
	}
	f := cmd.Flags()
	config.Flags(f)
	f.StringVar(&o.synthetic, "synthetic", "", "measure random weights of this `shape` instead of a model: qwen3.6-35b-a3b, or that with :LAYERS behind it")
	f.StringVar(&o.out, "out", "", "`file` to write; default "+protocol.TuningFile+" in the data directory")
	f.IntVar(&o.at, "at", 1024, "`tokens` of context at which tokens are measured")
	return cmd
}

func tune(e *env, cfg config.Config, o tuneOptions) error {
	runtime.LockOSThread() // where a GPU driver wants all its work
	defer runtime.UnlockOSThread()
	ck, err := tunedCheckpoint(cfg, o)
	if err != nil {
		return err
	}
	defer ck.Close()
	backend := cfg.Backend
	if backend == "" {
		backend = "metal"
	}
	d, err := worker.OpenDevice(backend, 0)
	if err != nil {
		return fmt.Errorf("tuning needs a GPU, by --backend metal or sim:cuda: %w", err)
	}
	defer d.Close()
	describeGPU(e, d.Info())
	m, err := gpu.New(d, ck, gpu.Options{Context: o.at + 1024})
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := m.Place(o.at)
	if err != nil {
		return err
	}
	defer s.Close()
	start, trials := time.Now(), 0
	t, err := s.Tune(func(t gpu.Trial) {
		trials++
		if t.Kept {
			fmt.Fprintf(e.stdout, "%s: %+v takes %.1f %% of the time of a token\n", t.Key, t.Choice, 100*t.Ratio)
		}
	})
	if err != nil {
		return err
	}
	data, err := t.Marshal()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(o.out, data, 0o600); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%d trials in %.1f s; %d choices are in %s\n", trials, time.Since(start).Seconds(), len(t.Choices), o.out)
	return nil
}

func tunedCheckpoint(cfg config.Config, o tuneOptions) (*checkpoint.Checkpoint, error) {
	if o.synthetic != "" {
		return gpu.Synthetic(o.synthetic)
	}
	return openCheckpoint(cfg.Model, checkpoint.Options{Quantize: cfg.Quantize, WeightsOnly: true})
}
