package main

import (
	"os"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"lilypad/supervisor"
	"lilypad/supervisor/config"
	"lilypad/worker"
)

// workerCommand is how the supervisor starts the process that holds the weights.
func workerCommand(*env) *cobra.Command {
	var level, kernels string
	cmd := &cobra.Command{
		Use:    "worker",
		Short:  "The process that holds the weights; started by lilypad itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := logrus.ParseLevel(level)
			if err != nil {
				return err
			}
			if code := worker.Run(l, 0, kernels); code != worker.ExitOK {
				return exitError{code: code}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&level, "log-level", "info", "least level of the lines on stderr")
	cmd.Flags().StringVar(&kernels, "cpu-kernels", "", "kernel set of the CPU backend")
	return cmd
}

// workerOptions makes the supervisor start this very binary as its worker.
func workerOptions(cfg config.Config) (supervisor.Options, error) {
	binary, err := os.Executable()
	return supervisor.Options{Command: []string{binary, "worker", "--log-level", cfg.LogLevel, "--cpu-kernels", cfg.Kernels}}, err
}

// newSupervisor builds the service as this binary runs it.
func newSupervisor(e *env, cfg config.Config) (*supervisor.Supervisor, error) {
	opt, err := workerOptions(cfg)
	if err != nil {
		return nil, err
	}
	return supervisor.New(cfg, newLogger(e, cfg), opt)
}
