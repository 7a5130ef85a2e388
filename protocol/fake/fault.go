package fake

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lilypad/protocol"
)

// Place is a point at which a fault can strike.
type Place string

// The places: during Load, before a prefill chunk, before a token, after Done was emitted, during Unload.
const (
	PlaceLoad     Place = "load"
	PlacePrefill  Place = "prefill"
	PlaceDecode   Place = "decode"
	PlaceDone     Place = "done"
	PlaceShutdown Place = "shutdown"
)

// Faults say what goes wrong. The zero value means nothing.
type Faults struct {
	Die         bool   // die once DieAt tokens were emitted since the start
	DieAt       int    //
	DieIn       Place  // die here
	DieOnPrompt string // die before the first token of a prompt with this text
	How         string // KILL, SEGV, BUS, ILL, ABRT, TRAP, TERM, STOP, panic, metal, message, or an exit status; KILL if empty
	Once        string // a file: die only if it is not there yet, and make it
	HangIn      Place  // wait here for ever
	Slow        time.Duration
	BigMessage  int // bytes in the event of the first token, to pass gRPC's default limits

	// These three concern the process (see Main).
	GarbageStdout  bool // a line that is no handshake before the handshake
	GarbageStderr  bool // lines on stderr that break naive log readers
	LeakGrandchild bool // a child that outlives the worker with its stdout and stderr
}

// ParseFaults reads "die_at=12,how=SEGV,once=/tmp/x": die_at, die_in, die_on_prompt, how, once, hang_in, slow (a duration),
// big_msg, garbage_stdout, garbage_stderr, leak_grandchild.
func ParseFaults(spec string) (Faults, error) {
	var f Faults
	for item := range strings.SplitSeq(spec, ",") {
		key, value, _ := strings.Cut(item, "=")
		var err error
		switch key {
		case "":
		case "die_at":
			f.Die = true
			f.DieAt, err = strconv.Atoi(value)
		case "die_in":
			f.DieIn = Place(value)
		case "die_on_prompt":
			f.DieOnPrompt = value
		case "how":
			f.How = value
		case "once":
			f.Once = value
		case "hang_in":
			f.HangIn = Place(value)
		case "slow":
			f.Slow, err = time.ParseDuration(value)
		case "big_msg":
			f.BigMessage, err = strconv.Atoi(value)
		case "garbage_stdout":
			f.GarbageStdout = true
		case "garbage_stderr":
			f.GarbageStderr = true
		case "leak_grandchild":
			f.LeakGrandchild = true
		default:
			return f, fmt.Errorf("fault %q is unknown", item)
		}
		if err != nil {
			return f, fmt.Errorf("fault %q: %w", item, err)
		}
	}
	return f, nil
}

// at waits as Slow says and lets the faults of a place strike. It returns the error with which the call ends.
func (e *Engine) at(ctx context.Context, place Place, prompt string) error {
	f := &e.opt.Faults
	if place != PlaceDone {
		if err := e.sleep(ctx, f.Slow); err != nil {
			return err
		}
	}
	if f.HangIn == place {
		if e.opt.Process {
			select {}
		}
		select {
		case <-ctx.Done():
		case <-e.dead:
		}
		return e.sleep(ctx, 0)
	}
	e.mu.Lock()
	strike := f.DieIn == place ||
		place == PlaceDecode && f.Die && e.emitted >= f.DieAt ||
		place == PlaceDecode && f.DieOnPrompt != "" && strings.Contains(prompt, f.DieOnPrompt)
	strike = strike && !e.fired && firstTime(f.Once)
	e.fired = e.fired || strike
	e.mu.Unlock()
	if !strike {
		return nil
	}
	if e.opt.Process {
		dieAs(f.How)
		select {} // the signal is on its way
	}
	e.Die()
	return protocol.ErrWorkerGone
}

// firstTime makes the file and reports whether it was missing; without a name it always is.
func firstTime(name string) bool {
	if name == "" {
		return true
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// dieAs ends this process in one of the ways of Faults.How.
func dieAs(how string) {
	signals := map[string]syscall.Signal{
		"": syscall.SIGKILL, "KILL": syscall.SIGKILL, "SEGV": syscall.SIGSEGV, "BUS": syscall.SIGBUS, "ILL": syscall.SIGILL,
		"ABRT": syscall.SIGABRT, "TRAP": syscall.SIGTRAP, "TERM": syscall.SIGTERM, "STOP": syscall.SIGSTOP,
	}
	if s, ok := signals[how]; ok {
		syscall.Kill(os.Getpid(), s)
		return
	}
	if status, err := strconv.Atoi(how); err == nil {
		os.Exit(status)
	}
	switch how {
	case "metal": // what a failed Metal assertion leaves
		fmt.Fprintln(stderr, "-[MTLDebugDevice newBufferWithLength:options:]:644: failed assertion `Buffer Validation'")
		syscall.Kill(os.Getpid(), syscall.SIGABRT)
	case "message": // a log line that panics go-plugin's own reader
		fmt.Fprintln(stderr, `{"@level":"error","@message":5,"@timestamp":7}`)
		os.Exit(3)
	default:
		go panic("fake worker: asked to panic") // on a goroutine of its own: deferred calls would clean up the heartbeat
	}
}

// leakGrandchild starts a child in a session of its own that keeps stdout and stderr open for a minute.
func leakGrandchild() {
	c := exec.Command("sleep", "60")
	c.Stdout, c.Stderr = stdout, stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err == nil {
		fmt.Fprintf(stderr, "grandchild %d\n", c.Process.Pid)
	}
}
