package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerifyOnSimulatedGPU checks the demo model's Metal kernels, a prompt in a chunk and then token by token, against
// files of the layout in which greedy runs of the real checkpoint are recorded; the numbers are those of transformers.
func TestVerifyOnSimulatedGPU(t *testing.T) {
	if raceEnabled {
		t.Skip("numeric goldens run without the race detector")
	}
	if _, err := exec.LookPath("clang-16"); err != nil {
		t.Skip("the Metal simulator needs clang-16: ", err)
	}
	tests := []struct {
		name  string
		shift float64 // of one recorded log-probability
		code  int
		want  string // in stdout or stderr
	}{
		{"as recorded", 0, exitOK, "result     ok"},
		{"one step is off", 0.3, exitFailed, "within 0.25"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := command("verify", "--backend", "sim:cpu", "--golden", recordedRun(t, tt.shift))
			if code != tt.code || !strings.Contains(out+errs, tt.want) || !strings.Contains(out, "sim") {
				t.Errorf("exit code %d, want %d; output lacks %q or the backend:\n%s%s", code, tt.code, tt.want, out, errs)
			}
		})
	}
}

// recordedRun writes the first demo golden as a greedy run of the real checkpoint is recorded; shift is added to the first
// step's log-probability.
func recordedRun(t *testing.T, shift float64) string {
	t.Helper()
	data, err := os.ReadFile("../../worker/testdata/demo_generation.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []struct {
		Prompt   []int32   `json:"prompt"`
		IDs      []int32   `json:"ids"`
		Logprobs []float64 `json:"logprobs"`
	}
	if err := json.Unmarshal(data, &runs); err != nil {
		t.Fatal(err)
	}
	run := runs[0]
	run.Logprobs[0] += shift
	var steps []map[string]any
	for i, id := range run.IDs {
		steps = append(steps, map[string]any{"chosen": id, "topk": [][2]float64{{float64(id), run.Logprobs[i]}}})
	}
	file, err := json.Marshal(map[string]any{
		"model": "lilypad-demo", "mlx_lm_version": "0.31.3", "chat_template": true, "prompt": "", "prompt_token_ids": run.Prompt, "steps": steps,
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "golden.json")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
