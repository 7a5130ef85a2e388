package worker

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
)

// Exit codes of Run.
const (
	ExitOK       = 0
	ExitUsage    = 2 // not started by a supervisor
	ExitBroken   = 3 // a descriptor of the supervisor is missing or wrong
	ExitOrphaned = 4 // the supervisor has gone
)

// garbagePercent bounds what dropped states waste: the heap is mostly states, and a token leaves little garbage, so
// collecting at a quarter above the live heap, not at double, costs nothing.
const garbagePercent = 25

// Run is the worker process: it serves an Engine to the supervisor that started it until that asks for a shutdown, and
// returns the exit code. It takes over the process: descriptors 1 to 4, SIGINT (which a terminal sends to the whole group,
// and which is for the supervisor to act on), and os.Exit within a second of the supervisor's death.
func Run(level logrus.Level, threads int, kernels string) int {
	if !protocol.StartedBySupervisor(os.Getenv) {
		fmt.Fprintln(os.Stderr, "lilypad worker is started by lilypad itself and does nothing by hand; run lilypad serve or lilypad chat")
		return ExitUsage
	}
	signal.Ignore(os.Interrupt)
	debug.SetGCPercent(garbagePercent)
	log := &logrus.Logger{Out: os.Stderr, Formatter: Formatter{}, Level: level, Hooks: logrus.LevelHooks{}, ExitFunc: os.Exit}
	if err := protectStdout(); err != nil {
		log.WithError(err).Error("stdout can't be set aside for the handshake")
		return ExitBroken
	}
	// At once and without a word: nothing here outlives the process, and nobody reads stderr any more.
	stop := protocol.WatchLifeline(os.NewFile(protocol.LifelineFD, "lifeline"), func() { os.Exit(ExitOrphaned) })
	defer stop()
	page := os.NewFile(protocol.HeartbeatFD, "heartbeat")
	beat, err := protocol.OpenHeartbeat(page)
	page.Close()
	if err != nil {
		log.WithError(err).Error("no heartbeat page")
		return ExitBroken
	}
	protocol.Serve(New(Options{Log: log, Heartbeat: beat, Threads: threads, Kernels: kernels}), protocol.ServeOptions{})
	return ExitOK // the engine and the page go with the process, since calls that were cut may still use them
}

// protectStdout keeps the real stdout for go-plugin's handshake alone: what other code prints to descriptor 1 goes to
// stderr from now on, where a stray line breaks nothing.
func protectStdout() error {
	kept, err := duplicate(1)
	if err != nil {
		return err
	}
	if err := redirect(2, 1); err != nil {
		return err
	}
	os.Stdout = os.NewFile(uintptr(kept), "handshake")
	return nil
}
