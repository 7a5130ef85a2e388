package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/spf13/cobra"

	"lilypad/supervisor/config"
)

// chatOptions are the flags of lilypad chat.
type chatOptions struct {
	server      string // base address of a running server; empty looks on the default address, then starts one
	system      string
	temperature float64
	sample      bool // the user gave --temperature
	maxTokens   int64
	seed        int64
	think       bool
	setThink    bool // the user gave --think
}

func chatCommand(e *env) *cobra.Command {
	var o chatOptions
	cmd := &cobra.Command{
		Use:   "chat [question]",
		Short: "Ask one question, or hold a conversation",
		Long: `With a question: prints the answer while it is made, and exits. Without one: a conversation; Ctrl-C stops an answer, Ctrl-D
leaves. Answers are greedy unless --temperature is given.

It talks to a server that runs on the default address with the same model, or starts its own for as long as it needs it.`,
		Example: `  lilypad chat "What is 17 + 25?"
  lilypad chat --think=false --system "Answer briefly." "Name three planets."
  lilypad chat`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.sample = cmd.Flags().Changed("temperature")
			o.setThink = cmd.Flags().Changed("think")
			cfg, err := config.Load(cmd.Flags(), e.vars)
			if err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return failed(chat(e, cfg, o, strings.Join(args, " ")))
		},
	}
	f := cmd.Flags()
	config.Flags(f)
	f.StringVar(&o.server, "server", "", "address of a running server, such as http://127.0.0.1:8383")
	f.StringVar(&o.system, "system", "", "system prompt")
	f.Float64Var(&o.temperature, "temperature", 0, "sample at this temperature instead of answering greedily")
	f.Int64Var(&o.maxTokens, "max-tokens", 0, "longest answer, reasoning included (default: what the context holds)")
	f.Int64Var(&o.seed, "seed", 0, "seed for sampling (default: a new one each time)")
	f.BoolVar(&o.think, "think", true, "let the model think before it answers")
	return cmd
}

// validate refuses what the server would refuse, before one is started.
func (o *chatOptions) validate() error {
	if o.temperature < 0 || o.temperature > 2 {
		return fmt.Errorf("temperature is %g; it must be from 0 to 2", o.temperature)
	}
	if o.maxTokens < 0 {
		return fmt.Errorf("max-tokens is %d; it must be at least 1, or 0 for what the context holds", o.maxTokens)
	}
	return nil
}

func chat(e *env, cfg config.Config, o chatOptions, question string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	base, done, err := findServer(ctx, e, cfg, o.server)
	if err != nil {
		return err
	}
	defer done()
	c := &conversation{
		client:  openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0)),
		options: o,
		out:     e.stdout,
		dim:     isTerminal(e.stdout),
	}
	if o.system != "" {
		c.messages = append(c.messages, openai.SystemMessage(o.system))
	}
	if question != "" {
		return c.ask(ctx, question)
	}
	stop() // in a conversation Ctrl-C ends an answer, not the program
	return c.loop(e)
}

// conversation is the history of one chat and the way to continue it.
type conversation struct {
	client   openai.Client
	options  chatOptions
	messages []openai.ChatCompletionMessageParamUnion
	out      io.Writer
	dim      bool // show reasoning, dimmed
}

// loop reads questions until end of file.
func (c *conversation) loop(e *env) error {
	in := newPrompt(e)
	for {
		line, err := in.read("> ")
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = c.ask(ctx, line)
		interrupted := ctx.Err() != nil
		stop()
		if err != nil && !interrupted {
			fmt.Fprintln(e.stderr, "lilypad: "+err.Error())
		}
	}
}

// ask sends one question, prints the answer as it arrives and adds both to the history. A failed or interrupted answer
// leaves the history as it was.
func (c *conversation) ask(ctx context.Context, question string) error {
	params := openai.ChatCompletionNewParams{
		Messages:    append(c.messages[:len(c.messages):len(c.messages)], openai.UserMessage(question)),
		Temperature: param.NewOpt(c.options.temperature),
	}
	if c.options.maxTokens > 0 {
		params.MaxCompletionTokens = param.NewOpt(c.options.maxTokens)
	}
	if c.options.seed != 0 {
		params.Seed = param.NewOpt(c.options.seed)
	}
	if c.options.setThink {
		params.SetExtraFields(map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": c.options.think}})
	}
	stream := c.client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	w := answerWriter{out: c.out, dim: c.dim}
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			if raw, ok := choice.Delta.JSON.ExtraFields["reasoning_content"]; ok {
				w.reasoning(raw.Raw())
			}
			w.content(choice.Delta.Content)
		}
	}
	w.end()
	if err := stream.Err(); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return readable(err)
	}
	c.messages = append(params.Messages, openai.AssistantMessage(w.text.String()))
	return nil
}

// readable is the server's own sentence where the error carries one.
func readable(err error) error {
	var api *openai.Error
	if errors.As(err, &api) && api.Message != "" {
		return errors.New(api.Message)
	}
	return err
}
