package process

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// process is one started worker process. It stands in for go-plugin's own runner for three reasons: the exit status is
// known as soon as the process ends, even if a grandchild keeps its pipes open; only a handshake line ever reaches
// go-plugin from stdout; and stderr is read by us, since a log line with an odd field makes go-plugin's reader panic.
type process struct {
	cmd  *exec.Cmd
	logs *workerLog

	pid      atomic.Int64     // 0 until it started
	killed   atomic.Bool      // go-plugin gave up on a process that lived
	exited   chan struct{}    // closed when the process was reaped
	state    *os.ProcessState // set before
	released chan struct{}    // closed when go-plugin may learn of the exit, see Wait
	release  func()

	handshake  *io.PipeReader
	pipes      []*os.File // our ends of stdout and stderr
	stderrDone chan struct{}
	readers    sync.WaitGroup
}

var _ runner.Runner = (*process)(nil)

func newProcess(cmd *exec.Cmd, logs *workerLog) *process {
	p := &process{cmd: cmd, logs: logs, exited: make(chan struct{}), released: make(chan struct{}), stderrDone: make(chan struct{})}
	p.release = sync.OnceFunc(func() { close(p.released) })
	return p
}

// Start spawns the process.
func (p *process) Start(context.Context) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer outW.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		return err
	}
	defer errW.Close()
	p.cmd.Stdout, p.cmd.Stderr = outW, errW
	err = spawn(p.cmd, func(state *os.ProcessState) {
		p.state = state
		close(p.exited)
	})
	if err != nil {
		outR.Close()
		errR.Close()
		return err
	}
	p.pid.Store(int64(p.cmd.Process.Pid))
	p.pipes = []*os.File{outR, errR}
	var relay *io.PipeWriter
	p.handshake, relay = io.Pipe()
	p.readers.Go(func() { p.readStdout(outR, relay) })
	p.readers.Go(func() {
		defer close(p.stderrDone)
		p.logs.read(errR)
	})
	return nil
}

// handshakeLine is go-plugin's: core version, protocol version, network, address ...
var handshakeLine = regexp.MustCompile(`^\d+\|\d+\|(unix|tcp)\|`)

// readStdout passes the handshake on and logs every other line.
func (p *process) readStdout(stdout io.Reader, relay *io.PipeWriter) {
	defer relay.Close()
	found := false
	readLines(stdout, func(line []byte) {
		if !found && handshakeLine.Match(line) {
			found = true
			relay.Write(append(bytes.Clone(line), '\n'))
			return
		}
		p.logs.line(line)
	})
}

// Wait returns after the process was reaped and released. Until the connection is made go-plugin must not learn of an
// exit: it would give up half-way and leave goroutines behind.
func (p *process) Wait(context.Context) error {
	<-p.released
	<-p.exited
	return nil
}

// Kill ends the process group; go-plugin calls it when a start failed. A process that closed its pipes is about to exit
// by itself and gets the time to do so, since its own status says more.
func (p *process) Kill(context.Context) error {
	select {
	case <-p.exited:
	case <-time.After(50 * time.Millisecond):
		p.killed.Store(true)
	}
	p.signal(syscall.SIGKILL)
	return nil
}

// signal sends a signal to the worker's process group. After the worker was reaped the group may still hold children of
// it; while it does, no new process gets its number.
func (p *process) signal(sig syscall.Signal) {
	if pid := p.pid.Load(); pid > 1 {
		syscall.Kill(-int(pid), sig)
	}
}

// ended reports whether the process was reaped.
func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// close lets go of the pipes, which a grandchild may still hold, and waits for their readers.
func (p *process) close() {
	for _, f := range p.pipes {
		f.Close()
	}
	p.readers.Wait()
}

// ID is the process id; empty if it never started.
func (p *process) ID() string {
	pid := p.pid.Load()
	if pid == 0 {
		return ""
	}
	return strconv.FormatInt(pid, 10)
}

// Stdout carries the handshake line only.
func (p *process) Stdout() io.ReadCloser { return p.handshake }

// Stderr is empty for go-plugin.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the executable's path.
func (p *process) Name() string { return p.cmd.Path }

// Diagnose has nothing to add.
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost and HostToPlugin change nothing: both sides are on one machine.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin is the other direction.
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// maxLine is where long lines are cut, in bytes.
const maxLine = 16 << 10

// readLines calls f for each line, without its end and cut at maxLine, until r ends.
func readLines(r io.Reader, f func([]byte)) {
	b := bufio.NewReaderSize(r, maxLine)
	cut := false
	for {
		line, more, err := b.ReadLine()
		if err != nil {
			return
		}
		if !cut {
			f(line)
		}
		cut = more
	}
}
