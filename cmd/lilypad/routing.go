package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"

	"lilypad/protocol"
	"lilypad/supervisor/config"
)

// layerBalance is how evenly the experts of a layer shared a text.
type layerBalance struct {
	Layer   int     `json:"layer"` // among those with experts
	Used    int     `json:"experts_used"`
	Experts int     `json:"experts"`
	Busiest int     `json:"busiest"`         // the id of the expert with most rows
	Peak    float64 `json:"busiest_to_mean"` // its rows over those that each would get if all got the same
	Even    float64 `json:"effective_share"` // 2^entropy of the loads over the number of experts: 1 when all get the same
}

// routingReport is what lilypad bench --routing says.
type routingReport struct {
	Model  string         `json:"model"`
	Tokens int            `json:"tokens"`
	Layers []layerBalance `json:"layers"`
}

// routing prefills the text of a file and reports which experts it went to.
func routing(e *env, cfg config.Config, file string, asJSON bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the text for --routing: %w", err)
	}
	if cfg.LogLevel == config.Default(nil).LogLevel {
		cfg.LogLevel = "error"
	}
	var r routingReport
	err = withService(context.Background(), e, cfg, func(ctx context.Context, s service) error {
		w, err := s.supervisor.Workers().Worker(ctx)
		if err != nil {
			return err
		}
		r.Model = w.Info.Name
		ids, err := w.Engine.Tokenize(ctx, []protocol.Span{{Text: string(text)}})
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return fmt.Errorf("%s is empty: --routing needs a text", file)
		}
		ids = ids[:min(len(ids), w.Info.Context-1)]
		r.Tokens = len(ids)
		if _, err := measure(ctx, w.Engine, ids, 1); err != nil {
			return err
		}
		st, err := w.Engine.Stats(ctx)
		if err != nil {
			return err
		}
		if st.ExpertLoads == nil {
			return fmt.Errorf("the backend of %.60s counts no experts: --routing needs a GPU, as with --backend metal, and a model with experts", w.Info.Numerics)
		}
		for i, loads := range st.ExpertLoads {
			r.Layers = append(r.Layers, balanceOf(i, loads))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if asJSON {
		out := json.NewEncoder(e.stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	return r.table(e.stdout)
}

// balanceOf summarises how loads, rows by expert, are spread.
func balanceOf(layer int, loads []int64) layerBalance {
	b := layerBalance{Layer: layer, Experts: len(loads)}
	total := int64(0)
	for _, n := range loads {
		total += n
	}
	if total == 0 {
		return b
	}
	entropy := 0.0
	for _, n := range loads {
		if n > 0 {
			p := float64(n) / float64(total)
			entropy -= p * math.Log2(p)
			b.Used++
		}
	}
	most := slices.Max(loads)
	b.Busiest = slices.Index(loads, most)
	b.Peak = float64(most) * float64(len(loads)) / float64(total)
	b.Even = math.Exp2(entropy) / float64(len(loads))
	return b
}

func (r *routingReport) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "model\t%s\ntokens\t%d\n\n", r.Model, r.Tokens)
	fmt.Fprint(t, "layer\texperts used\tbusiest\tof the mean\teffective share\n")
	for _, l := range r.Layers {
		fmt.Fprintf(t, "%d\t%d of %d\t%d\t%.1fx\t%.2f\n", l.Layer, l.Used, l.Experts, l.Busiest, l.Peak, l.Even)
	}
	return t.Flush()
}
