package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"golang.org/x/sync/errgroup"
)

// serverReport is what a running server, ours or another's, gave its clients.
type serverReport struct {
	Date    time.Time     `json:"date"`
	Server  string        `json:"server"`
	Tokens  int           `json:"max_tokens"`
	Rounds  int           `json:"rounds"`
	Streams []streamSpeed `json:"streams"`
}

// streamSpeed is what some clients got that asked at once; medians over the rounds.
type streamSpeed struct {
	Streams int     `json:"streams"`
	First   float64 `json:"first_token_ms"`   // from the request to the first text, median of the clients
	Decode  float64 `json:"tokens_per_s"`     // of one client after its first text, median of the clients
	Total   float64 `json:"all_tokens_per_s"` // of all clients together, from the first request to the last text
}

// benchServer measures the server at base by 1, 4, ... streams at once, as its clients see it.
func benchServer(w io.Writer, base string, counts []int, o benchOptions) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := serverReport{Date: time.Now().UTC().Truncate(time.Second), Server: base, Tokens: o.decode, Rounds: o.rounds}
	question := 0
	for _, n := range counts {
		var rounds []roundSpeed
		for round := range o.rounds + 1 {
			s, err := askAtOnce(ctx, base, n, question, o.decode)
			if err != nil {
				return fmt.Errorf("%d streams at %s: %w", n, base, err)
			}
			question += n
			if round > 0 { // the first one warms up
				rounds = append(rounds, s)
			}
		}
		r.Streams = append(r.Streams, summary(n, rounds))
	}
	if o.json {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s, answers of at most %d tokens\n\nstreams\tfirst token\tone stream\tall streams\n", base, o.decode)
	for _, s := range r.Streams {
		fmt.Fprintf(t, "%d\t%.1f ms\t%.1f tokens/s\t%.1f tokens/s\n", s.Streams, s.First, s.Decode, s.Total)
	}
	return t.Flush()
}

// roundSpeed is one round: times of the median client, tokens of all.
type roundSpeed struct {
	first, perToken, total time.Duration
	tokens                 int
}

func summary(n int, rounds []roundSpeed) streamSpeed {
	var first, perToken, each []time.Duration
	for _, r := range rounds {
		first, perToken = append(first, r.first), append(perToken, r.perToken)
		each = append(each, r.total/time.Duration(r.tokens))
	}
	return streamSpeed{Streams: n, First: milliseconds(median(first)), Decode: 1 / median(perToken).Seconds(), Total: 1 / median(each).Seconds()}
}

// askAtOnce asks n questions at the same time, none of them asked before.
func askAtOnce(ctx context.Context, base string, n, question, tokens int) (roundSpeed, error) {
	clients := make([]clientSpeed, n)
	var g errgroup.Group
	start := time.Now()
	for i := range clients {
		g.Go(func() (err error) {
			clients[i], err = ask(ctx, base, fmt.Sprintf("Count from %d to 900.", 100+question+i), tokens)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return roundSpeed{}, err
	}
	r := roundSpeed{total: time.Since(start)}
	var first, perToken []time.Duration
	for _, c := range clients {
		first, perToken = append(first, c.first), append(perToken, c.perToken)
		r.tokens += c.tokens
	}
	r.first, r.perToken = median(first), median(perToken)
	return r, nil
}

// clientSpeed is one answer as its client saw it.
type clientSpeed struct {
	first, perToken time.Duration
	tokens          int // as the server counted them
}

// ask gets one greedy streamed answer.
func ask(ctx context.Context, base, question string, tokens int) (clientSpeed, error) {
	client := openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	var c clientSpeed
	var last time.Duration
	pieces := 0
	start := time.Now()
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
		Temperature:         param.NewOpt(0.0),
		MaxCompletionTokens: param.NewOpt(int64(tokens)),
		StreamOptions:       openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}, option.WithJSONSet("chat_template_kwargs", map[string]any{"enable_thinking": false}))
	defer stream.Close()
	for stream.Next() {
		chunk := stream.Current()
		if chunk.Usage.CompletionTokens > 0 {
			c.tokens = int(chunk.Usage.CompletionTokens)
		}
		for _, choice := range chunk.Choices {
			if choice.Delta.Content == "" {
				continue
			}
			last = time.Since(start)
			pieces++
			if c.first == 0 {
				c.first = last
			}
		}
	}
	if err := stream.Err(); err != nil {
		return c, err
	}
	if c.first == 0 || c.tokens < 2 {
		return c, fmt.Errorf("an answer of %d tokens can't be measured", c.tokens)
	}
	c.perToken = (last - c.first) / time.Duration(c.tokens-1)
	if pieces < c.tokens/4 { // many came at once, so the time between first and last text says little
		c.perToken = last / time.Duration(c.tokens)
	}
	return c, nil
}

// parseStreams reads --streams.
func parseStreams(s string) ([]int, error) {
	var counts []int
	for _, field := range strings.Split(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 || n > 256 {
			return nil, fmt.Errorf("--streams %q: %q is no number from 1 to 256", s, field)
		}
		counts = append(counts, n)
	}
	return counts, nil
}
