// Command lilypad is the local inference service: supervisor, worker and tools in one binary, one file per subcommand. It
// wires packages together; what they do lives in supervisor/, worker/ and protocol/.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes of every subcommand.
const (
	exitOK     = 0
	exitFailed = 1 // the command ran and its result is a failure
	exitUsage  = 2 // the command line is wrong
)

func main() { os.Exit(run(newEnv(os.Args[1:]))) }

// env is the process state that commands may touch, so that tests run them in process.
type env struct {
	args   []string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	vars   []string // environment, as os.Environ gives it
}

func newEnv(args []string) *env {
	return &env{args: args, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, vars: os.Environ()}
}

// run executes one command line and returns the exit code.
func run(e *env) int {
	root := rootCommand(e)
	root.SetArgs(e.args)
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exitOK
	}
	var exit exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fmt.Fprintln(e.stderr, "lilypad: "+exit.err.Error())
		}
		return exit.code
	}
	fmt.Fprintln(e.stderr, "lilypad: "+err.Error())
	fmt.Fprintln(e.stderr, "Run 'lilypad --help' for the commands and their flags.")
	return exitUsage
}

// exitError ends a command with its own exit code; without err nothing more is printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// failed marks an error as the command's own failure, not a wrong command line.
func failed(err error) error {
	var exit exitError
	if err == nil || errors.As(err, &exit) {
		return err
	}
	return exitError{code: exitFailed, err: err}
}

func rootCommand(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "lilypad",
		Short: "Local inference for Qwen3.6 models that survives its own crashes",
		Long: `Lilypad serves one model to the apps on this machine over the OpenAI API. The weights live in a worker process: when it
dies, the next one goes on with the next token, and the client sees a pause at most.

Without --model every command runs the small demo model that is built in.`,
		Example: `  lilypad chat "What is 17 + 25?"
  lilypad serve --listen 127.0.0.1:8383
  lilypad serve --model ~/models/Qwen3.6-35B-A3B-4bit`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(serveCommand(e), chatCommand(e), benchCommand(e), verifyCommand(e), doctorCommand(e), tuneCommand(e), versionCommand(e), workerCommand(e))
	return root
}
