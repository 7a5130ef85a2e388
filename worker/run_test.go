package worker

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/sirupsen/logrus"

	"lilypad/protocol"
)

// asWorker in the environment makes this test binary a worker.
const asWorker = "LILYPAD_TEST_AS_WORKER"

func runWorker() int { return Run(logrus.InfoLevel, 1, "") }

// process is a worker that a test plays the supervisor of.
type process struct {
	engine   protocol.Engine
	cmd      *exec.Cmd
	client   *plugin.Client
	lifeline *os.File // the end that we hold
	beat     *protocol.Heartbeat
	logs     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func launch(t *testing.T) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	beat, page, err := protocol.NewHeartbeat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), lifeline: w, beat: beat, logs: &lockedBuffer{}}
	p.cmd.Env = append(os.Environ(), asWorker+"=1")
	p.cmd.ExtraFiles = []*os.File{r, page}
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: protocol.Handshake, Plugins: plugin.PluginSet{protocol.PluginName: &protocol.Plugin{}}, Cmd: p.cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: p.logs, JSONFormat: true}),
	})
	t.Cleanup(func() {
		p.client.Kill()
		w.Close()
		beat.Close()
	})
	rpc, err := p.client.Client()
	r.Close()
	page.Close()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := rpc.Dispense(protocol.PluginName)
	if err != nil {
		t.Fatal(err)
	}
	p.engine = engine.(protocol.Engine)
	return p
}

func TestWorkerProcess(t *testing.T) {
	p := launch(t)
	if _, err := p.engine.Load(t.Context(), protocol.LoadRequest{}, nil); err != nil {
		t.Fatal(err)
	}
	g := demoGoldens(t)[1] // 17 + 25
	req := protocol.GenerateRequest{ID: "sum", Tokens: g.Prompt, Prompt: len(g.Prompt), MaxTokens: 50, StopIDs: []int32{3019, 3021}}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil { // a terminal's Ctrl-C is not for the worker
		t.Fatal(err)
	}
	got := ask(t, p.engine, req)
	if got.text() != "17 + 25 = 42." {
		t.Errorf("text %q", got.text())
	}
	if b := p.beat.Read(); b.Bytes < 5_000_000 || b.Step < 10 {
		t.Errorf("heartbeat %+v, want bytes of weights and steps", b)
	}
	eventually(t, "the heartbeat is idle", func() bool { b := p.beat.Read(); return b.Phase == protocol.PhaseIdle && b.Request == "" })
	eventually(t, "the log reached the host with level and fields", func() bool {
		return slices.ContainsFunc(strings.Split(p.logs.String(), "\n"), func(line string) bool {
			return strings.Contains(line, `"@level":"info"`) && strings.Contains(line, `"@message":"model loaded"`) && strings.Contains(line, `"model":"lilypad-demo"`)
		})
	})
	if log := p.logs.String(); strings.Contains(log, "17 + 25") {
		t.Errorf("the log has text of the request: %s", log)
	}
}

func TestWorkerDiesWithItsSupervisor(t *testing.T) {
	p := launch(t)
	if _, err := p.engine.Load(t.Context(), protocol.LoadRequest{}, nil); err != nil {
		t.Fatal(err)
	}
	busy := make(chan struct{})
	ended := make(chan error, 1)
	var once sync.Once
	go func() {
		req := prompt(100, 1, 8000)
		ended <- p.engine.Generate(context.Background(), req, func(protocol.Event) error { once.Do(func() { close(busy) }); return nil })
	}()
	<-busy
	p.lifeline.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the generation ended well, want a worker that is gone")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the worker lives on without its supervisor")
	}
}

func TestWorkerByHand(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{asWorker + "=1"}
	out, err := cmd.Output()
	if err == nil || cmd.ProcessState.ExitCode() != ExitUsage || len(out) > 0 {
		t.Errorf("exit code %d, stdout %q, want %d and nothing", cmd.ProcessState.ExitCode(), out, ExitUsage)
	}
	cmd = exec.Command(os.Args[0])
	cmd.Env = []string{asWorker + "=1", protocol.Cookie + "=" + protocol.Handshake.MagicCookieValue}
	pipe, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	cmd.ExtraFiles = []*os.File{pipe} // a lifeline, but no heartbeat page
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != ExitBroken {
		t.Errorf("without a heartbeat page: exit code %d, want %d", cmd.ProcessState.ExitCode(), ExitBroken)
	}
}
