package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load parses args, with a home of its own, and loads.
func load(t *testing.T, home string, env []string, args ...string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Flags(flags)
	flags.Bool("other", false, "a flag of the command itself")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(flags, append([]string{"HOME=" + home, "XDG_DATA_HOME="}, env...))
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFlagsHaveTheDefaultsOfConfig(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Flags(flags)
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if len(names) != len(keys())+1 {
		t.Errorf("flags %v, keys %v", names, keys())
	}
	c, err := load(t, "/home/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"listen": c.Listen, "drain": c.Drain.String(), "log-level": c.LogLevel, "log-format": c.LogFormat, "parallel": "4"} {
		if got := flags.Lookup(key).DefValue; got != want {
			t.Errorf("%s: the flag says %q, Default %q", key, got, want)
		}
	}
}

func TestLoadOrder(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	data := filepath.Join(home, "d")
	write(t, filepath.Join(data, "lilypad.yaml"), "listen: 127.0.0.1:1\nparallel: 2\ndrain: 3s\nlog-level: debug\nmodel: ~/m\n")
	c, err := load(t, home, []string{"LILYPAD_PARALLEL=3", "LILYPAD_LOG_LEVEL=warn", "LILYPAD_NOBODY=1"}, "--data", data, "--log-level=error", "--other")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Listen: "127.0.0.1:1", Model: filepath.Join(home, "m"), Data: data, Parallel: 3, Drain: 3 * time.Second, LogLevel: "error", LogFormat: "text"}
	if c != want {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
}

func TestLoadFormats(t *testing.T) {
	t.Parallel()
	for ending, content := range map[string]string{
		"yaml": "context: 77\nlog-format: json\n",
		"toml": "context = 77\nlog-format = \"json\"\n",
		"json": `{"context": 77, "log-format": "json"}`,
	} {
		path := filepath.Join(t.TempDir(), "mine."+ending)
		write(t, path, content)
		for _, c := range []struct{ env, args []string }{{args: []string{"--config", path}}, {env: []string{"LILYPAD_CONFIG=" + path}}} {
			got, err := load(t, t.TempDir(), c.env, c.args...)
			if err != nil || got.Context != 77 || got.LogFormat != "json" {
				t.Errorf("%s: got %+v, %v", ending, got, err)
			}
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, content, says string }{
		{"unknown keys", "a.yaml", "lissen: x\nzzz: {a: 1}\n", "unknown keys lissen, zzz; the keys are listen, model"},
		{"bad yaml", "a.yaml", "a: [", "a.yaml"},
		{"bad toml", "a.toml", "a = ", "a.toml"},
		{"bad json", "a.json", "{", "a.json"},
		{"ending", "a.ini", "a=1", `ending ".ini"`},
		{"type", "a.yaml", "context: many", "context"},
		{"nested", "a.yaml", "listen: {host: 1}", "listen"},
		{"invalid value", "a.yaml", "quantize: 5", "quantize is 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), c.file)
			write(t, path, c.content)
			if _, err := load(t, t.TempDir(), nil, "--config", path); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := load(t, t.TempDir(), nil, "--config", "/nowhere/x.yaml"); err == nil || !strings.Contains(err.Error(), "/nowhere/x.yaml") {
		t.Errorf("missing file: got %v", err)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:8383":            "127.0.0.1:8383",
		"127.9.9.9:0":               "127.9.9.9:0",
		"localhost:80":              "127.0.0.1:80",
		"[::1]:80":                  "[::1]:80",
		"[::ffff:127.0.0.1]:80":     "[::ffff:127.0.0.1]:80",
		":8383":                     "",
		"0.0.0.0:8383":              "",
		"[::]:1":                    "",
		"192.168.1.2:1":             "",
		"10.0.0.1:1":                "",
		"[fe80::1]:1":               "",
		"[::1%lo]:1":                "",
		"example.com:1":             "",
		"localhost.example.com:1":   "",
		"127.0.0.1.example.com:1":   "",
		"127.1:1":                   "",
		"2130706433:1":              "",
		"127.0.0.1":                 "",
		"127.0.0.1:http":            "",
		"127.0.0.1:70000":           "",
		"127.0.0.1:-1":              "",
		"":                          "",
		"http://127.0.0.1:8383":     "",
		"unix:///tmp/a.sock":        "",
		"127.0.0.1:8383/v1":         "",
		"localhost.:8383":           "",
		"[::ffff:192.168.0.1]:8383": "",
	} {
		got, err := Config{Listen: listen}.Address()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", listen, got, err)
		}
	}
}

func TestValidateSaysEverythingAtOnce(t *testing.T) {
	t.Parallel()
	err := Config{Listen: "0.0.0.0:1", Context: -1, Quantize: 3, StateBudget: -1, Chunk: 100, Drain: -1, LogLevel: "loud", LogFormat: "xml"}.Validate()
	for _, want := range []string{"without access keys", "data is empty", "context is -1", "quantize is 3", "parallel is 0", "state-budget is -1", "prefill-chunk is 100", "drain is", `log-level is "loud"`, `log-format is "xml"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
