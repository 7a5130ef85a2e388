package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"

	"lilypad/supervisor"
)

// watchAnswer asks over HTTP, streamed and greedy, and calls seen after each piece of text until it returns false.
func watchAnswer(ctx context.Context, base, question string, maxTokens int64, seen func() bool) error {
	client := openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
		Temperature:         param.NewOpt(0.0),
		MaxCompletionTokens: param.NewOpt(maxTokens),
	})
	defer stream.Close()
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			_, thought := c.Delta.JSON.ExtraFields["reasoning_content"]
			if (thought || c.Delta.Content != "") && !seen() {
				return nil
			}
		}
	}
	return stream.Err()
}

// askedFirst is the time from asking the question to its first text.
func askedFirst(ctx context.Context, base, question string) (took time.Duration, err error) {
	start := time.Now()
	err = watchAnswer(ctx, base, question, 8, func() bool {
		took = time.Since(start)
		return false
	})
	if err == nil && took == 0 {
		err = errors.New("the answer was empty")
	}
	return took, err
}

// firstToken is the median time from a request to its first text. Each question is a new one.
func firstToken(ctx context.Context, base string, rounds int) (time.Duration, error) {
	var all []time.Duration
	for i := range rounds + 1 {
		took, err := askedFirst(ctx, base, fmt.Sprintf("What is %d + 25?", 10+i))
		if err != nil {
			return 0, err
		}
		if i > 0 { // the first one warms up
			all = append(all, took)
		}
	}
	return median(all), nil
}

// recovery is the median time from SIGKILL of the worker to the next text of the answer that it was making.
func recovery(ctx context.Context, base string, sup *supervisor.Supervisor, rounds int) (time.Duration, error) {
	var all []time.Duration
	for range rounds {
		texts, old := 0, 0
		var killed, next time.Time
		err := watchAnswer(ctx, base, "Count from 1 to 120.", 256, func() bool {
			texts++
			status := sup.Workers().Status()
			switch {
			case texts == 4:
				killed, old = time.Now(), status.Incarnation
				return syscall.Kill(status.PID, syscall.SIGKILL) == nil
			case texts > 4 && status.Incarnation > old: // not one that was under way before the kill
				next = time.Now()
				return false
			}
			return true
		})
		if err != nil {
			return 0, err
		}
		if next.IsZero() {
			return 0, errors.New("the answer was too short to kill the worker in its middle")
		}
		all = append(all, next.Sub(killed))
	}
	return median(all), nil
}
