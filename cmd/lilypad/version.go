package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"lilypad/protocol"
	"lilypad/worker"
)

func versionCommand(e *env) *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(e.stdout, "lilypad %s, protocol %d, %s %s/%s\n", version(), protocol.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if verbose {
				fmt.Fprintf(e.stdout, "CPU kernels, best first: %s\n", strings.Join(worker.CPUKernels(), ", "))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "also print what this machine can compute with")
	return cmd
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + modified
}
