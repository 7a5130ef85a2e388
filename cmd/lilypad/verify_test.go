package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const relative = "../../worker/checkpoint/testdata/tiny-moe-r3" // a random relative with goldens of its own

// command runs a command line in this process.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(&env{args: args, stdin: strings.NewReader(""), stdout: &out, stderr: &errs, vars: os.Environ()})
	return code, out.String(), errs.String()
}

func TestVerify(t *testing.T) {
	if raceEnabled {
		t.Skip("numeric goldens run without the race detector")
	}
	greedy := func(edit func(g map[string]any)) string {
		g := map[string]any{
			"prompt_token_ids": []int{152, 249},
			"steps": []map[string]any{
				{"chosen": 183, "topk": [][2]float64{{183, -4.526663}, {256, -4.769476}}},
			},
		}
		edit(g)
		data, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "golden.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	topk := func(values ...[2]float64) func(map[string]any) {
		return func(g map[string]any) {
			g["steps"] = []map[string]any{{"chosen": int(values[0][0]), "topk": values}}
		}
	}
	dtype := func(name string, edit func(map[string]any)) func(map[string]any) {
		return func(g map[string]any) { edit(g); g["dtype"] = name }
	}
	same := func(map[string]any) {}
	tests := []struct {
		name   string
		golden string
		code   int
		want   string // in stdout or stderr
	}{
		{"scored sequences", relative + "/goldens.json", exitOK, "compared   333 steps"},
		{"greedy run as recorded", greedy(dtype("float32", same)), exitOK, "result     ok"},
		{"fp32 is strict", greedy(dtype("float32", topk([2]float64{183, -4.5296}, [2]float64{256, -4.769476}))), exitFailed, "log-probability"},
		{"bf16 is lenient", greedy(topk([2]float64{183, -4.7}, [2]float64{256, -4.9})), exitOK, "result     ok"},
		{"bf16 has a limit", greedy(topk([2]float64{183, -4.9}, [2]float64{256, -5.0})), exitFailed, "within 0.25"},
		{"bf16 ignores what is unlikely", greedy(topk([2]float64{183, -4.6}, [2]float64{256, -8})), exitOK, "result     ok"},
		{"bf16 forgives a narrow choice", greedy(topk([2]float64{256, -4.6}, [2]float64{183, -4.7})), exitOK, "result     ok"},
		{"bf16 wants a clear choice", greedy(topk([2]float64{7, -7}, [2]float64{8, -9})), exitFailed, "greedy token 183, want 7"},
		{"a token outside the vocabulary", greedy(func(g map[string]any) { g["prompt_token_ids"] = []int{152, 512} }), exitFailed, "is it this model's golden?"},
		{"no steps", greedy(func(g map[string]any) { delete(g, "steps") }), exitFailed, "no steps"},
		{"no file", "missing.json", exitFailed, "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := command("verify", "--model", relative, "--golden", tt.golden)
			if code != tt.code || !strings.Contains(out+errs, tt.want) {
				t.Errorf("exit code %d, want %d; output lacks %q:\n%s%s", code, tt.code, tt.want, out, errs)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"help", nil, exitOK, "lilypad chat \"What is 17 + 25?\""},
		{"the worker is hidden", []string{"--help"}, exitOK, "verify"},
		{"unknown command", []string{"frobnicate"}, exitUsage, "unknown command"},
		{"unknown flag", []string{"serve", "--frobnicate"}, exitUsage, "unknown flag"},
		{"verify needs a golden", []string{"verify"}, exitUsage, "golden"},
		{"another machine", []string{"serve", "--listen", "0.0.0.0:8383"}, exitUsage, "other machines could reach"},
		{"chat too hot", []string{"chat", "--temperature", "9", "hi"}, exitUsage, "from 0 to 2"},
		{"chat of less than nothing", []string{"chat", "--max-tokens", "-1", "hi"}, exitUsage, "at least 1"},
		{"bench of nothing", []string{"bench", "--rounds", "0"}, exitUsage, "at least"},
		{"no such model", []string{"verify", "--model", "nowhere", "--golden", relative + "/goldens.json"}, exitFailed, "nowhere"},
		{"no such backend", []string{"verify", "--backend", "abacus", "--golden", relative + "/goldens.json"}, exitFailed, "there is: cpu"},
		{"version", []string{"version"}, exitOK, "lilypad "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := command(tt.args...)
			if code != tt.code || !strings.Contains(out+errs, tt.want) {
				t.Errorf("exit code %d, want %d; output lacks %q:\n%s%s", code, tt.code, tt.want, out, errs)
			}
			if strings.Contains(out, "started by lilypad itself") {
				t.Errorf("the help shows the hidden worker command:\n%s", out)
			}
		})
	}
}
