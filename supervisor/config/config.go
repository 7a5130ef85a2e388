// Package config makes one Config of a file, the environment and flags, and refuses what can't work with sentences that
// say what to do. It must not import anything of ours, read the environment by itself or touch a checkpoint.
package config

import (
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Config is everything that a service can be told. The tag is the key in the file, the flag's name, and after LILYPAD_, in
// capitals and with underscores, the name in the environment.
type Config struct {
	Listen      string        `koanf:"listen"`         // address of the API, loopback only; port 0 takes a free one
	Model       string        `koanf:"model"`          // checkpoint directory; empty for the embedded demo
	Backend     string        `koanf:"backend"`        // "metal", "cpu", "sim:cpu", "sim:cuda"; empty lets the worker choose
	Kernels     string        `koanf:"cpu-kernels"`    // kernel set of the CPU backend; empty lets it choose
	Data        string        `koanf:"data"`           // directory of all that is kept
	Context     int           `koanf:"context"`        // most tokens of one conversation; 0 means the model's own, at most 32,768
	Quantize    int           `koanf:"quantize"`       // 4 or 8 bits for a checkpoint stored unquantised; 0 runs it as stored
	Parallel    int           `koanf:"parallel"`       // generations that interleave at once
	StateBudget int64         `koanf:"state-budget"`   // MiB for the states of conversations; 0 lets the worker choose
	Chunk       int           `koanf:"prefill-chunk"`  // tokens of a prompt that a GPU computes at once; 0 lets the worker choose
	Control     bool          `koanf:"control-tokens"` // control tokens in what clients send act as such, as in Hugging Face's libraries
	Drain       time.Duration `koanf:"drain"`          // how long running answers may go on after a stop is asked for
	LogLevel    string        `koanf:"log-level"`      // logrus level
	LogFormat   string        `koanf:"log-format"`     // "text" or "json"
}

// Default is the Config of an empty command line; env is in the form of os.Environ.
func Default(env []string) Config {
	return Config{
		Listen:    "127.0.0.1:8383",
		Data:      dataDir(env),
		Parallel:  4,
		Drain:     10 * time.Second,
		LogLevel:  "info",
		LogFormat: "text",
	}
}

// dataDir is the user's own place for data: XDG on Linux, Application Support on a Mac.
func dataDir(env []string) string {
	home := lookup(env, "HOME")
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "lilypad")
	}
	if xdg := lookup(env, "XDG_DATA_HOME"); filepath.IsAbs(xdg) {
		return filepath.Join(xdg, "lilypad")
	}
	return filepath.Join(home, ".local", "share", "lilypad")
}

// lookup returns the last value of name in env, or "".
func lookup(env []string, name string) (value string) {
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// absolute resolves a path from a file, the environment or a flag: "~/" is the home directory, anything else is relative
// to the working directory. An empty path stays empty.
func absolute(path string, env []string) (string, error) {
	if path == "" {
		return "", nil
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(lookup(env, "HOME"), rest)
	}
	return filepath.Abs(path)
}
