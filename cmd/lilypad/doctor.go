package main

import (
	"fmt"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lilypad/metal"
	"lilypad/worker"
	"lilypad/worker/gpu"
)

func doctorCommand(e *env) *cobra.Command {
	var backend string
	var selftest bool
	cmd := &cobra.Command{
		Use:   "doctor --selftest",
		Short: "Check that this machine's GPU computes what it should",
		Long: `Compiles every kernel and runs each one against a plain implementation of the same step, in small random models of all
formats. The report is made to be pasted into an issue. The exit code is 1 when anything differs.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !selftest {
				return fmt.Errorf("doctor has one check so far: lilypad doctor --selftest")
			}
			return failed(doctor(e, backend))
		},
	}
	cmd.Flags().StringVar(&backend, "backend", "metal", "`name` of the GPU backend (metal, sim:cpu, sim:cuda)")
	cmd.Flags().BoolVar(&selftest, "selftest", false, "run the kernels against their twins")
	return cmd
}

func doctor(e *env, backend string) error {
	runtime.LockOSThread() // where a GPU driver wants all its work
	defer runtime.UnlockOSThread()
	fmt.Fprintf(e.stdout, "lilypad %s, %s %s/%s, %s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().UTC().Format(time.RFC3339))
	d, err := worker.OpenDevice(backend, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	describeGPU(e, d.Info())
	start, failures := time.Now(), 0
	t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	err = gpu.SelfTest(d, func(v gpu.Verdict) {
		result := "ok"
		if v.Err != nil {
			failures++
			result = "FAILED: " + v.Err.Error()
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", v.Model, v.Kind, v.Checked, result)
	})
	if flushed := t.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "took       %.1f s\n", time.Since(start).Seconds())
	if failures > 0 {
		fmt.Fprintf(e.stdout, "result     %d kinds of dispatch differ from their twins\n", failures)
		return exitError{code: exitFailed}
	}
	fmt.Fprintln(e.stdout, "result     ok")
	return nil
}

func describeGPU(e *env, i metal.Info) {
	fmt.Fprintf(e.stdout, "GPU        %s, by %s\n", i.Name, i.Driver)
	fmt.Fprintf(e.stdout, "           family %d, %d cores, %s\n", i.Family, i.Cores, i.OS)
	fmt.Fprintf(e.stdout, "memory     buffers of at most %.1f GiB, %.1f GiB resident, shared %v\n", gib(i.MaxBuffer), gib(i.WorkingSet), i.Shared)
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }
