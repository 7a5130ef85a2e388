package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/knadh/koanf/v2"
	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"
)

// ConfigFlag names the flag (and LILYPAD_CONFIG the variable) that says where the file is.
const ConfigFlag = "config"

// Flags defines one flag for each key of Config, and --config.
func Flags(flags *pflag.FlagSet) {
	flags.String(ConfigFlag, "", "configuration `file` (yaml, toml or json); default lilypad.yaml, .toml or .json in --data")
	flags.String("listen", "127.0.0.1:8383", "`address` of the API, on this machine only; port 0 takes a free one")
	flags.String("model", "", "checkpoint `directory`; default the embedded demo checkpoint")
	flags.String("backend", "", "`name` of what computes: metal, cpu, or a simulated GPU, sim:cpu or sim:cuda; default metal where it works, else cpu")
	flags.String("cpu-kernels", "", "`set` of instructions that the CPU backend uses: avx512, avx2 or go; default the first of them that works here")
	flags.String("data", "", "`directory` for all that lilypad keeps; default the user's data directory")
	flags.Int("context", 0, "most `tokens` of one conversation; default the model's own, at most 32768")
	flags.Int("quantize", 0, "`bits` (4 or 8) to which a checkpoint stored unquantised is quantised while loading")
	flags.Int("parallel", 4, "`answers` that are generated at once")
	flags.Int("prefill-chunk", 0, "`tokens` of a prompt that a GPU computes at once, 512 to 4096 in steps of 512; default 2048, or 512 when memory is short")
	flags.Int64("state-budget", 0, "`MiB` for the states of conversations; default chosen by the worker")
	flags.Bool("control-tokens", false, "let control tokens such as <|im_end|> in what clients send act as such, instead of staying text")
	flags.Duration("drain", Default(nil).Drain, "how long running answers may go on after a stop is asked for")
	flags.String("log-level", "info", "error, warn, info, debug or trace")
	flags.String("log-format", "text", "text or json")
}

// Load reads the file, then the environment (env in the form of os.Environ), then the flags that were set on the command
// line; what comes later wins. The result is valid.
func Load(flags *pflag.FlagSet, env []string) (Config, error) {
	c := Default(env)
	early := koanf.New(".") // without the file, to find it
	if err := errors.Join(early.Load(environment(env), nil), early.Load(changed(flags), nil)); err != nil {
		return c, err
	}
	path, err := findFile(early, c.Data, env)
	if err != nil {
		return c, err
	}

	k := koanf.New(".")
	if path != "" {
		if err := loadFile(k, path); err != nil {
			return c, err
		}
	}
	if err := k.Merge(early); err != nil {
		return c, err
	}
	if err := k.Unmarshal("", &c); err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	if c.Model, err = absolute(c.Model, env); err != nil {
		return c, fmt.Errorf("model %q: %w", c.Model, err)
	}
	if c.Data, err = absolute(c.Data, env); err != nil {
		return c, fmt.Errorf("data %q: %w", c.Data, err)
	}
	return c, c.Validate()
}

// findFile returns the file that was named, or the one in the data directory, or "".
func findFile(early *koanf.Koanf, data string, env []string) (string, error) {
	if path := early.String(ConfigFlag); path != "" {
		return absolute(path, env)
	}
	if d := early.String("data"); d != "" {
		data = d
	}
	data, err := absolute(data, env)
	if err != nil {
		return "", err
	}
	for _, ending := range []string{".yaml", ".yml", ".toml", ".json"} {
		path := filepath.Join(data, "lilypad"+ending)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("configuration file: %w", err)
		}
	}
	return "", nil
}

// loadFile reads a file in the format of its ending and refuses keys that nobody would read.
func loadFile(k *koanf.Koanf, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w; name an existing file with --%s or leave it out", err, ConfigFlag)
	}
	settings, err := parse(filepath.Ext(path), content)
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	known := keys()
	var unknown []string
	for key := range settings {
		if !slices.Contains(known, key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("configuration file %s has unknown keys %s; the keys are %s",
			path, strings.Join(unknown, ", "), strings.Join(known, ", "))
	}
	return k.Load(source(settings), nil)
}

func parse(ending string, content []byte) (settings map[string]any, err error) {
	switch ending {
	case ".yaml", ".yml":
		err = yaml.Unmarshal(content, &settings)
	case ".toml":
		err = toml.Unmarshal(content, &settings)
	case ".json":
		err = json.Unmarshal(content, &settings)
	default:
		err = fmt.Errorf("ending %q is not .yaml, .yml, .toml or .json", ending)
	}
	return settings, err
}

// keys lists the keys of Config in order.
func keys() []string {
	var list []string
	for field := range reflect.TypeFor[Config]().Fields() {
		list = append(list, field.Tag.Get("koanf"))
	}
	return list
}

// source is a koanf provider of settings that are already parsed.
type source map[string]any

func (s source) ReadBytes() ([]byte, error) {
	return nil, errors.New("BUG: settings are parsed already")
}
func (s source) Read() (map[string]any, error) { return maps.Clone(s), nil }

// environment picks the variables that stand for a key; others with our prefix are not ours to judge.
func environment(env []string) source {
	s := source{}
	for _, key := range append(keys(), ConfigFlag) {
		name := "LILYPAD_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
		if value := lookup(env, name); value != "" {
			s[key] = value
		}
	}
	return s
}

// changed picks the flags that were given. Commands may have other flags of their own.
func changed(flags *pflag.FlagSet) source {
	s := source{}
	known := append(keys(), ConfigFlag)
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(known, f.Name) {
			s[f.Name] = f.Value.String()
		}
	})
	return s
}
