package process

import (
	"os"
	"strings"
	"time"

	"lilypad/protocol"
)

// Config says what to launch and how patient to be. Zero durations mean the defaults.
type Config struct {
	Command  []string             // executable and arguments; empty means this binary with the argument "worker"
	Env      []string             // environment to choose from, see WorkerEnv; nil means os.Environ()
	RunDir   string               // folder for sockets, made with mode 0700; empty or too long means one below /tmp
	Load     protocol.LoadRequest // the checkpoint
	Pressure func() Pressure      // memory pressure now; nil asks the system
	Limits   Limits
}

// Limits are the durations of a Manager.
type Limits struct {
	Start   time.Duration // from spawn to the first answer; 10 s
	Load    time.Duration // without progress in a load or unload; 60 s
	Prefill time.Duration // without progress in a prefill; 60 s
	Decode  time.Duration // without progress in a decode; 20 s
	Silent  time.Duration // without progress and without an answer to pings, in any phase; 10 s
	Ping    time.Duration // between two pings, whose deadline is 1 s; 2 s

	Drain  time.Duration // for running requests to end when the manager stops; 10 s
	Unload time.Duration // for states and weights to be freed then; 5 s

	Backoff  []time.Duration // delay after the first, second ... death in a row without a finished load; 0.25, 1, 4, 15, 60 s
	Breaker  int             // so many such deaths open the breaker; 5
	HalfOpen time.Duration   // and after this time one more start is tried; 2 min
	Jetsam   time.Duration   // least delay after a death for want of memory; 10 s
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&l.Start, 10*time.Second)
	set(&l.Load, 60*time.Second)
	set(&l.Prefill, 60*time.Second)
	set(&l.Decode, 20*time.Second)
	set(&l.Silent, 10*time.Second)
	set(&l.Ping, 2*time.Second)
	set(&l.Drain, 10*time.Second)
	set(&l.Unload, 5*time.Second)
	set(&l.HalfOpen, 2*time.Minute)
	set(&l.Jetsam, 10*time.Second)
	if l.Backoff == nil {
		l.Backoff = []time.Duration{250 * time.Millisecond, time.Second, 4 * time.Second, 15 * time.Second, time.Minute}
	}
	if l.Breaker == 0 {
		l.Breaker = 5
	}
	return l
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return c, err
		}
		c.Command = []string{self, "worker"}
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = WorkerEnv(c.Env)
	if c.Pressure == nil {
		c.Pressure = systemPressure
	}
	c.Limits = c.Limits.withDefaults()
	return c, nil
}

// WorkerEnv picks from an environment what a worker may see: where things are, the language, Go's runtime settings and
// LILYPAD_ variables that name no secret. API keys of cloud services must never reach it.
func WorkerEnv(environ []string) []string {
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "GOMAXPROCS", "GODEBUG", "GOGC", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR":
			out = append(out, kv)
		default:
			if strings.HasPrefix(name, "LILYPAD_") && !secret(name) {
				out = append(out, kv)
			}
		}
	}
	return out
}

func secret(name string) bool {
	for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "CLOUD"} {
		if strings.Contains(strings.ToUpper(name), word) {
			return true
		}
	}
	return false
}
