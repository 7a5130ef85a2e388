package fake

import (
	"fmt"
	"os"
	"strings"
	"time"

	hclog "github.com/hashicorp/go-hclog"

	"lilypad/protocol"
)

// FaultsEnv is the environment variable with the faults of Main, see ParseFaults.
const FaultsEnv = "LILYPAD_FAKE_FAULTS"

// The process's own stdout and stderr: Serve replaces os.Stdout and os.Stderr.
var stdout, stderr = os.Stdout, os.Stderr

// Main makes this process a fake worker, as a test binary does when it is started again by a supervisor. It serves an
// Unloaded engine with lifeline and heartbeat, and exits.
func Main(opt Options) {
	faults, err := ParseFaults(os.Getenv(FaultsEnv))
	if err != nil {
		fmt.Fprintln(stderr, err)
		os.Exit(1)
	}
	hb, err := protocol.OpenHeartbeat(os.NewFile(protocol.HeartbeatFD, "heartbeat"))
	if err != nil {
		fmt.Fprintln(stderr, err)
		os.Exit(1)
	}
	protocol.WatchLifeline(os.NewFile(protocol.LifelineFD, "lifeline"), func() { os.Exit(0) })
	if faults.GarbageStdout {
		fmt.Fprintln(stdout, "loading native library version 1.2.3")
	}
	if faults.GarbageStderr {
		garbage()
	}
	if faults.LeakGrandchild {
		leakGrandchild()
	}
	opt.Faults, opt.Heartbeat, opt.Process, opt.Unloaded = faults, hb, true, true
	protocol.Serve(New(opt), protocol.ServeOptions{
		Logger: hclog.New(&hclog.LoggerOptions{Name: "fake", Level: hclog.Info, Output: stderr, JSONFormat: true}),
	})
	if faults.HangIn == "exit" {
		time.Sleep(time.Hour)
	}
	os.Exit(0)
}

// garbage writes what native libraries and broken loggers write.
func garbage() {
	for _, line := range []string{
		`{"@message": 5}`,
		`{"@level": ["x"], "@message": "odd level"}`,
		`{"@timestamp": 12, "@message": {"a": 1}}`,
		`{"@level":"warning","@message":"level of another logger"}`,
		`[1, 2, 3]`, `null`, `{`, "\xff\xfe\x00binary", "",
		"[WARN] native warning",
		strings.Repeat("long ", 40000),
	} {
		fmt.Fprintln(stderr, line)
	}
	fmt.Fprintln(stderr, `{"@level":"info","@message":"after the garbage","@timestamp":"`+time.Now().Format("2006-01-02T15:04:05.000000Z07:00")+`","component":"fake","tokens":3}`)
}
