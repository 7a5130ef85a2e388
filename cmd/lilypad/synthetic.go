package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"lilypad/protocol"
	"lilypad/worker"
	"lilypad/worker/gpu"
)

// syntheticReport is what lilypad bench --synthetic measured.
type syntheticReport struct {
	Date     time.Time        `json:"date"`
	Version  string           `json:"version"`
	Machine  string           `json:"machine"`
	GPU      string           `json:"gpu"`
	Driver   string           `json:"driver"`
	Model    string           `json:"model"`
	Weights  int64            `json:"weight_bytes"`
	Load     float64          `json:"load_s"`
	Prompts  []syntheticSpeed `json:"prompts"`
	Contexts []syntheticSpeed `json:"contexts"`
}

// syntheticSpeed is decode at one length of context, or prefill of one length of prompt.
type syntheticSpeed struct {
	Context int          `json:"context"`
	Decode  float64      `json:"decode_tokens_per_s,omitempty"` // greedy, sampled on the GPU
	Prefill float64      `json:"prefill_tokens_per_s,omitempty"`
	Kernels []kernelRate `json:"kernels,omitempty"`
}

// kernelRate is one kind of dispatch, run alone.
type kernelRate struct {
	Name       string  `json:"name"`
	Dispatches int     `json:"dispatches"`
	Bytes      int64   `json:"bytes"`
	Micros     float64 `json:"us"`
	Rate       float64 `json:"gb_per_s"`
	Flops      float64 `json:"tflop_per_s,omitempty"`
}

// synthetic measures prefill and decode of random weights made in device memory.
func synthetic(e *env, backend string, prompts, contexts []int, o benchOptions) error {
	runtime.LockOSThread() // where a GPU driver wants all its work
	defer runtime.UnlockOSThread()
	ck, err := gpu.Synthetic(o.synthetic)
	if err != nil {
		return err
	}
	if backend == "" {
		backend = "metal"
	}
	d, err := worker.OpenDevice(backend, 0)
	if err != nil {
		return fmt.Errorf("--synthetic needs a GPU, by --backend metal or sim:cuda: %w", err)
	}
	defer d.Close()
	longest := 0
	for _, c := range contexts {
		longest = max(longest, c+4*o.decode+256)
	}
	for _, n := range prompts {
		longest = max(longest, n)
	}
	start := time.Now()
	m, err := gpu.New(d, ck, gpu.Options{Context: longest, Empty: d.Info().Driver == "sim:count"})
	if err != nil {
		return err
	}
	defer m.Close()
	info := d.Info()
	r := syntheticReport{
		Date: time.Now().UTC().Truncate(time.Second), Version: version(), Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		GPU: info.Name, Driver: info.Driver, Model: o.synthetic, Weights: m.WeightBytes(), Load: time.Since(start).Seconds(),
	}
	for _, n := range prompts {
		speed, err := syntheticPrefill(m, n, o.kernels)
		if err != nil {
			return fmt.Errorf("a prompt of %d tokens: %w", n, err)
		}
		r.Prompts = append(r.Prompts, speed)
	}
	for _, c := range contexts {
		speed, err := syntheticDecode(m, c, o.decode, o.kernels)
		if err != nil {
			return fmt.Errorf("context %d: %w", c, err)
		}
		r.Contexts = append(r.Contexts, speed)
	}
	if o.json {
		out := json.NewEncoder(e.stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	return r.table(e.stdout)
}

// syntheticDecode times tokens steps at a context, after some that warm up.
func syntheticDecode(m *gpu.Model, context, tokens int, kernels bool) (syntheticSpeed, error) {
	r := syntheticSpeed{Context: context}
	s, err := m.Place(context)
	if err != nil {
		return r, err
	}
	defer s.Close()
	id, logits := int32(1), make([]float32, m.Vocab())
	var start time.Time
	const warm = 8
	for i := range warm + tokens {
		if i == warm {
			start = time.Now()
		}
		if id, err = s.Step(id, protocol.Sampling{}, logits); err != nil {
			return r, err
		}
	}
	r.Decode = float64(tokens) / time.Since(start).Seconds()
	if !kernels {
		return r, nil
	}
	times, err := s.KernelTimes(20)
	r.Kernels = rates(times)
	return r, err
}

func rates(times []gpu.KernelTime) []kernelRate {
	var list []kernelRate
	for _, k := range times {
		seconds := k.Time.Seconds()
		list = append(list, kernelRate{k.Name, k.Dispatches, k.Bytes, microseconds(k.Time), float64(k.Bytes) / seconds / 1e9, float64(k.Flops) / seconds / 1e12})
	}
	return list
}

// syntheticPrefill times a prompt, after one that warms up; then the kernels of its last chunk.
func syntheticPrefill(m *gpu.Model, tokens int, kernels bool) (syntheticSpeed, error) {
	r := syntheticSpeed{Context: tokens}
	for range 2 {
		s, err := m.Place(0)
		if err != nil {
			return r, err
		}
		took, err := s.Prompt(tokens)
		s.Close()
		if err != nil {
			return r, err
		}
		r.Prefill = float64(tokens) / took.Seconds()
	}
	if !kernels {
		return r, nil
	}
	last := min(tokens, m.Chunk())
	s, err := m.Place(tokens - last)
	if err != nil {
		return r, err
	}
	defer s.Close()
	times, err := s.ChunkTimes(last, 2)
	r.Kernels = rates(times)
	return r, err
}

func (r *syntheticReport) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "model\t%s, %.2f GB of random weights\n", r.Model, float64(r.Weights)/1e9)
	fmt.Fprintf(t, "machine\t%s; %s by %s\n", r.Machine, r.GPU, r.Driver)
	fmt.Fprintf(t, "load\t%.1f s\n", r.Load)
	note := ""
	if r.Driver == "sim:count" {
		note = " encoded; nothing was computed"
	}
	for _, c := range r.Prompts {
		fmt.Fprintf(t, "prefill of %d\t%.0f tokens/s%s\n", c.Context, c.Prefill, note)
	}
	for _, c := range r.Contexts {
		fmt.Fprintf(t, "decode at %d\t%.1f tokens/s%s\n", c.Context, c.Decode, note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range append(r.Prompts, r.Contexts...) {
		if len(c.Kernels) == 0 {
			continue
		}
		title := "kernels of a token"
		if c.Prefill > 0 {
			title = "kernels of the last chunk"
		}
		fmt.Fprintf(t, "\n%s at %d\tdispatches\tMB\tµs\tGB/s\tTFLOP/s\n", title, c.Context)
		for _, k := range c.Kernels {
			fmt.Fprintf(t, "%s\t%d\t%.2f\t%.1f\t%.0f\t%.1f\n", k.Name, k.Dispatches, float64(k.Bytes)/1e6, k.Micros, k.Rate, k.Flops)
		}
	}
	return t.Flush()
}

// parseLengths reads a list such as "256,4096,32768" that a flag gave; an empty one has none.
func parseLengths(flag, text string) ([]int, error) {
	var list []int
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 200000 {
			return nil, fmt.Errorf("--%s %q: want numbers of tokens from 1 to 200000, with commas between", flag, text)
		}
		list = append(list, n)
	}
	return list, nil
}
