package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"lilypad/supervisor/config"
)

func serveCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the OpenAI API on this machine",
		Long: `Serves the OpenAI API. The first line on stdout names the address, once the model is loaded and requests are answered.

SIGINT (Ctrl-C) and SIGTERM end it in good order: running answers may finish for --drain, then the worker releases its memory.
A second signal ends it at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags(), e.vars)
			if err != nil {
				return err
			}
			return failed(serve(e, cfg))
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}

func serve(e *env, cfg config.Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // from now on a signal has its default effect
	sup, err := newSupervisor(e, cfg)
	if err != nil {
		return err
	}
	return sup.Run(ctx, func(addr net.Addr) { fmt.Fprintf(e.stdout, "lilypad is ready on http://%s\n", addr) })
}

// newLogger writes to stderr as the configuration says; cfg is valid.
func newLogger(e *env, cfg config.Config) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(e.stderr)
	if level, err := logrus.ParseLevel(cfg.LogLevel); err == nil {
		log.SetLevel(level)
	}
	if cfg.LogFormat == "json" {
		log.SetFormatter(&logrus.JSONFormatter{})
	}
	return log
}
