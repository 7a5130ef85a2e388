package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"lilypad/protocol"
	"lilypad/supervisor"
	"lilypad/supervisor/config"
	"lilypad/worker"
)

// benchOptions are the flags of lilypad bench.
type benchOptions struct {
	prompt, decode, rounds int
	boundary, recovery     bool
	json                   bool
	synthetic              string
	prompts, contexts      string
	server, streams        string
	kernels                bool
	routing                string
}

// benchReport is what a run measured. Times are medians over the rounds.
type benchReport struct {
	Date      time.Time `json:"date"`
	Version   string    `json:"version"`
	Machine   string    `json:"machine"`
	Model     string    `json:"model"`
	Numerics  string    `json:"numerics"`
	Weights   int64     `json:"weight_bytes"`
	Rounds    int       `json:"rounds"`
	Load      float64   `json:"start_to_ready_s"`
	Start     float64   `json:"start_to_first_token_s"` // of a short question, asked as soon as the service is ready
	Prompt    int       `json:"prompt_tokens"`
	Prefill   float64   `json:"prefill_tokens_per_s"`
	Decoded   int       `json:"decoded_tokens"`
	Decode    float64   `json:"decode_tokens_per_s"`
	First     float64   `json:"first_token_http_ms"` // a short question, streamed
	Through   float64   `json:"step_through_worker_us,omitempty"`
	Direct    float64   `json:"step_in_process_us,omitempty"`
	Boundary  float64   `json:"boundary_us_per_token,omitempty"`     // the difference, wall time
	BoundCPU  float64   `json:"boundary_cpu_us_per_token,omitempty"` // CPU time of the supervisor's side
	Recovery  float64   `json:"kill_to_next_token_ms,omitempty"`
	PeakBytes int64     `json:"worker_peak_bytes"` // resident, mapped weights included
}

func benchCommand(e *env) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure speed, start, recovery and memory",
		Long: `Runs the whole service on a free port and measures it: start to ready and to a first token, prefill and decode through the worker process, time to
the first token over HTTP, what the process boundary costs for each token, and how long a killed worker delays the next
token. Prompts are random tokens that no cache has seen.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags(), e.vars)
			if err != nil {
				return err
			}
			if o.prompt < 1 || o.decode < 2 || o.rounds < 1 {
				return fmt.Errorf("prompt is %d, decode %d, rounds %d; they must be at least 1, 2 and 1", o.prompt, o.decode, o.rounds)
			}
			if o.server != "" {
				counts, err := parseStreams(o.streams)
				if err != nil {
					return err
				}
				return failed(benchServer(e.stdout, strings.TrimSuffix(o.server, "/"), counts, o))
			}
			if o.synthetic != "" {
				prompts, err := parseLengths("prompts", o.prompts)
				if err != nil {
					return err
				}
				contexts, err := parseLengths("contexts", o.contexts)
				if err != nil {
					return err
				}
				return failed(synthetic(e, cfg.Backend, prompts, contexts, o))
			}
			if o.routing != "" {
				return failed(routing(e, cfg, o.routing, o.json))
			}
			return failed(bench(e, cfg, o))
		},
	}
	f := cmd.Flags()
	config.Flags(f)
	f.IntVar(&o.prompt, "prompt", 512, "`tokens` of the prompt whose prefill is measured")
	f.IntVar(&o.decode, "decode", 128, "`tokens` whose decode is measured")
	f.IntVar(&o.rounds, "rounds", 5, "times that each measurement is repeated")
	f.BoolVar(&o.boundary, "boundary", true, "measure the process boundary, for which the model is loaded in this process too")
	f.BoolVar(&o.recovery, "recovery", true, "kill the worker and measure until the next token")
	f.StringVar(&o.server, "server", "", "instead, measure the OpenAI API at this `address`, as in http://127.0.0.1:8383: first token and tokens/s of its streams")
	f.StringVar(&o.streams, "streams", "1,4", "`numbers` of streams at once for --server")
	f.StringVar(&o.synthetic, "synthetic", "", "instead, prefill and decode on the GPU with random weights of this `shape`: qwen3.6-35b-a3b, or that with :LAYERS behind it")
	f.StringVar(&o.prompts, "prompts", "512,4096", "`tokens` of prompts that --synthetic prefills; none when empty")
	f.StringVar(&o.contexts, "contexts", "256,4096,32768", "`tokens` of context at which --synthetic decodes; none when empty")
	f.BoolVar(&o.kernels, "kernels", false, "with --synthetic, time each kind of kernel too")
	f.StringVar(&o.routing, "routing", "", "instead, prefill the text of this `file` on a GPU and show how evenly the experts shared it")
	f.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	return cmd
}

func bench(e *env, cfg config.Config, o benchOptions) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if cfg.LogLevel == config.Default(nil).LogLevel {
		cfg.LogLevel = "error" // a killed worker is expected here
	}
	r := benchReport{
		Date: time.Now().UTC().Truncate(time.Second), Version: version(), Rounds: o.rounds, Prompt: o.prompt, Decoded: o.decode,
		Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
	}
	err := withService(ctx, e, cfg, func(ctx context.Context, s service) error {
		r.Load = s.load.Seconds()
		first, err := askedFirst(ctx, s.base, "What is 9 + 25?")
		if err != nil {
			return fmt.Errorf("first answer: %w", err)
		}
		r.Start = (s.load + first).Seconds()
		return r.measureAll(ctx, s.supervisor, cfg, o, s.base)
	})
	if err != nil {
		return err
	}
	r.PeakBytes = childrenPeak()
	if o.json {
		out := json.NewEncoder(e.stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	return r.table(e.stdout)
}

// service is a running one.
type service struct {
	supervisor *supervisor.Supervisor
	base       string        // address of its API, as in http://127.0.0.1:1234
	load       time.Duration // from start to ready
}

// withService starts the service on a free port, hands it to use, and stops it again.
func withService(ctx context.Context, e *env, cfg config.Config, use func(ctx context.Context, s service) error) error {
	cfg.Listen = "127.0.0.1:0"
	sup, err := newSupervisor(e, cfg)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	start := time.Now()
	go func() { ended <- sup.Run(run, func(a net.Addr) { ready <- a }) }()
	select {
	case addr := <-ready:
		err = use(ctx, service{sup, "http://" + addr.String(), time.Since(start)})
	case err := <-ended:
		stop()
		return err
	}
	stop()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

func (r *benchReport) measureAll(ctx context.Context, sup *supervisor.Supervisor, cfg config.Config, o benchOptions, base string) error {
	w, err := sup.Workers().Worker(ctx)
	if err != nil {
		return err
	}
	r.Model, r.Numerics, r.Weights = w.Info.Name, w.Info.Numerics, w.Info.WeightBytes
	if need := o.prompt + o.decode; need > w.Info.Context {
		return fmt.Errorf("prompt and decode are %d tokens together, the context holds %d; lower --prompt or --decode", need, w.Info.Context)
	}
	if err := r.measureSpeed(ctx, w.Engine, w.Info, o); err != nil {
		return err
	}
	first, err := firstToken(ctx, base, o.rounds)
	if err != nil {
		return fmt.Errorf("time to first token: %w", err)
	}
	r.First = milliseconds(first)
	if o.boundary {
		if err := r.measureBoundary(ctx, w.Engine, w.Info, cfg, o); err != nil {
			return err
		}
	}
	if o.recovery {
		gap, err := recovery(ctx, base, sup, o.rounds)
		if err != nil {
			return fmt.Errorf("recovery: %w", err)
		}
		r.Recovery = milliseconds(gap)
	}
	return nil
}

// measureSpeed times prefill and decode through the worker process, after one round that warms up.
func (r *benchReport) measureSpeed(ctx context.Context, engine protocol.Engine, info protocol.ModelInfo, o benchOptions) error {
	rng := rand.New(rand.NewPCG(1, 0))
	var prefill, decode []time.Duration
	for round := range o.rounds + 1 {
		p, err := measure(ctx, engine, randomPrompt(rng, info, o.prompt), 1)
		if err != nil {
			return fmt.Errorf("prefill: %w", err)
		}
		d, err := measure(ctx, engine, randomPrompt(rng, info, 1), o.decode)
		if err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if round > 0 {
			prefill, decode = append(prefill, p.first), append(decode, d.perToken())
		}
	}
	r.Prefill = float64(o.prompt) / median(prefill).Seconds()
	r.Decode = 1 / median(decode).Seconds()
	return nil
}

func (r *benchReport) measureBoundary(ctx context.Context, remote protocol.Engine, info protocol.ModelInfo, cfg config.Config, o benchOptions) error {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	local := worker.New(worker.Options{Log: quiet, Kernels: cfg.Kernels})
	defer func() { _ = local.Unload(context.WithoutCancel(ctx)) }()
	_, err := local.Load(ctx, protocol.LoadRequest{Model: cfg.Model, Backend: cfg.Backend, Quantize: cfg.Quantize, Context: cfg.Context}, nil)
	if err != nil {
		return err
	}
	b, err := measureBoundary(ctx, remote, local, info, 4*o.rounds, o.decode)
	if err != nil {
		return err
	}
	r.Through, r.Direct = microseconds(b.through), microseconds(b.direct)
	r.Boundary, r.BoundCPU = microseconds(b.extra), microseconds(b.cpu)
	return nil
}

func (r *benchReport) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("model", "%s, %.1f MB of weights", r.Model, float64(r.Weights)/1e6)
	row("machine", "%s", r.Machine)
	row("numerics", "%.60s", r.Numerics)
	row("start to ready", "%.2f s", r.Load)
	row("start to first token", "%.2f s", r.Start)
	row("prefill", "%.0f tokens/s (%d tokens)", r.Prefill, r.Prompt)
	row("decode", "%.1f tokens/s (%d tokens)", r.Decode, r.Decoded)
	row("first token", "%.1f ms (short question over HTTP)", r.First)
	if r.Through > 0 {
		row("process boundary", "%.1f µs a token (%.1f µs through it, %.1f µs in one process), %.1f µs of CPU", r.Boundary, r.Through, r.Direct, r.BoundCPU)
	}
	if r.Recovery > 0 {
		row("kill to next token", "%.0f ms", r.Recovery)
	}
	row("peak memory", "%.0f MB (worker, mapped weights included)", float64(r.PeakBytes)/1e6)
	return t.Flush()
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
