package protocol

import pb "lilypad/protocol/proto"

// The conversions mirror engine.go in its order. An empty slice travels as nil.

// convert maps a slice, keeping nil for an empty one.
func convert[A, B any](in []A, f func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = f(in[i])
	}
	return out
}

func toHello(h Hello) *pb.HelloReply {
	return &pb.HelloReply{Version: int64(h.Version), Pid: int64(h.PID), Backend: h.Backend, Loaded: h.Loaded, Numerics: h.Numerics}
}

func fromHello(m *pb.HelloReply) Hello {
	return Hello{Version: int(m.Version), PID: int(m.Pid), Backend: m.Backend, Loaded: m.Loaded, Numerics: m.Numerics}
}

func toLoad(r LoadRequest) *pb.LoadRequest {
	return &pb.LoadRequest{
		Model: []byte(r.Model), Backend: r.Backend, Quantize: int64(r.Quantize), Context: int64(r.Context),
		StateBudget: r.StateBudget, Parallel: int64(r.Parallel), Chunk: int64(r.Chunk), Tuning: []byte(r.Tuning),
	}
}

func fromLoad(m *pb.LoadRequest) LoadRequest {
	return LoadRequest{
		Model: string(m.Model), Backend: m.Backend, Quantize: int(m.Quantize), Context: int(m.Context),
		StateBudget: m.StateBudget, Parallel: int(m.Parallel), Chunk: int(m.Chunk), Tuning: string(m.Tuning),
	}
}

func toModel(i ModelInfo) *pb.ModelInfo {
	return &pb.ModelInfo{
		Name: []byte(i.Name), CheckpointId: i.CheckpointID, Numerics: i.Numerics, Context: int64(i.Context), Vocab: int64(i.Vocab),
		ChatTemplate: []byte(i.ChatTemplate), Bos: []byte(i.BOS), Eos: []byte(i.EOS), StopIds: i.StopIDs,
		Added: convert(i.Added, func(a AddedToken) *pb.AddedToken {
			return &pb.AddedToken{Id: a.ID, Content: []byte(a.Content), Special: a.Special}
		}),
		Sampling: toSampling(i.Sampling), WeightBytes: i.WeightBytes,
	}
}

func fromModel(m *pb.ModelInfo) ModelInfo {
	return ModelInfo{
		Name: string(m.GetName()), CheckpointID: m.GetCheckpointId(), Numerics: m.GetNumerics(), Context: int(m.GetContext()),
		Vocab: int(m.GetVocab()), ChatTemplate: string(m.GetChatTemplate()), BOS: string(m.GetBos()), EOS: string(m.GetEos()),
		StopIDs: m.GetStopIds(),
		Added: convert(m.GetAdded(), func(a *pb.AddedToken) AddedToken {
			return AddedToken{ID: a.Id, Content: string(a.Content), Special: a.Special}
		}),
		Sampling: fromSampling(m.GetSampling()), WeightBytes: m.GetWeightBytes(),
	}
}

func toSpan(s Span) *pb.Span   { return &pb.Span{Text: []byte(s.Text), Literal: s.Literal} }
func fromSpan(m *pb.Span) Span { return Span{Text: string(m.Text), Literal: m.Literal} }

func toSegment(s Segment) *pb.Segment   { return &pb.Segment{Kind: int64(s.Kind), N: int64(s.N)} }
func fromSegment(m *pb.Segment) Segment { return Segment{Kind: SegmentKind(m.Kind), N: int(m.N)} }

func toSampling(s Sampling) *pb.Sampling {
	return &pb.Sampling{Temperature: s.Temperature, TopK: int64(s.TopK), TopP: s.TopP, MinP: s.MinP, Seed: s.Seed, Choice: s.Choice}
}

func fromSampling(m *pb.Sampling) Sampling {
	return Sampling{
		Temperature: m.GetTemperature(), TopK: int(m.GetTopK()), TopP: m.GetTopP(), MinP: m.GetMinP(), Seed: m.GetSeed(), Choice: m.GetChoice(),
	}
}

func toGenerate(r GenerateRequest) *pb.GenerateRequest {
	return &pb.GenerateRequest{
		Id: []byte(r.ID), Tokens: r.Tokens, Prompt: int64(r.Prompt), Schedule: convert(r.Schedule, toSegment), Numerics: r.Numerics,
		MaxTokens: int64(r.MaxTokens), StopIds: r.StopIDs, Sampling: toSampling(r.Sampling),
		Checkpoints: convert(r.Checkpoints, func(n int) int64 { return int64(n) }),
		TopLogprobs: int64(r.TopLogprobs), Logprobs: r.Logprobs,
	}
}

func fromGenerate(m *pb.GenerateRequest) GenerateRequest {
	return GenerateRequest{
		ID: string(m.Id), Tokens: m.Tokens, Prompt: int(m.Prompt), Schedule: convert(m.Schedule, fromSegment), Numerics: m.Numerics,
		MaxTokens: int(m.MaxTokens), StopIDs: m.StopIds, Sampling: fromSampling(m.Sampling),
		Checkpoints: convert(m.Checkpoints, func(n int64) int { return int(n) }),
		TopLogprobs: int(m.TopLogprobs), Logprobs: m.Logprobs,
	}
}

func toEvent(e Event) *pb.Event {
	m := &pb.Event{Tokens: convert(e.Tokens, toToken), Computed: convert(e.Computed, toSegment)}
	if s := e.Started; s != nil {
		m.Started = &pb.Started{Cached: int64(s.Cached), Miss: s.Miss, Schedule: convert(s.Schedule, toSegment)}
	}
	if p := e.Prefill; p != nil {
		m.Prefill = &pb.Progress{Done: int64(p.Done), Total: int64(p.Total)}
	}
	if d := e.Done; d != nil {
		m.Done = &pb.Done{Reason: int64(d.Reason), Text: d.Text, StopId: d.StopID}
	}
	return m
}

func fromEvent(m *pb.Event) Event {
	e := Event{Tokens: convert(m.Tokens, fromToken), Computed: convert(m.Computed, fromSegment)}
	if s := m.Started; s != nil {
		e.Started = &Started{Cached: int(s.Cached), Miss: s.Miss, Schedule: convert(s.Schedule, fromSegment)}
	}
	if p := m.Prefill; p != nil {
		e.Prefill = &Progress{Done: int(p.Done), Total: int(p.Total)}
	}
	if d := m.Done; d != nil {
		e.Done = &Done{Reason: FinishReason(d.Reason), Text: d.Text, StopID: d.StopId}
	}
	return e
}

func toToken(t Token) *pb.Token {
	return &pb.Token{Id: t.ID, Text: t.Text, Logprob: t.Logprob, Top: convert(t.Top, toTop)}
}

func fromToken(m *pb.Token) Token {
	return Token{ID: m.Id, Text: m.Text, Logprob: m.Logprob, Top: convert(m.Top, fromTop)}
}

func toTop(t TokenLogprob) *pb.TokenLogprob {
	return &pb.TokenLogprob{Id: t.ID, Text: t.Text, Logprob: t.Logprob}
}

func fromTop(m *pb.TokenLogprob) TokenLogprob {
	return TokenLogprob{ID: m.Id, Text: m.Text, Logprob: m.Logprob}
}

func toScore(r ScoreRequest) *pb.ScoreRequest {
	return &pb.ScoreRequest{Id: []byte(r.ID), Tokens: r.Tokens, From: int64(r.From), TopK: int64(r.TopK)}
}

func fromScore(m *pb.ScoreRequest) ScoreRequest {
	return ScoreRequest{ID: string(m.Id), Tokens: m.Tokens, From: int(m.From), TopK: int(m.TopK)}
}

func toStep(s ScoreStep) *pb.ScoreStep {
	return &pb.ScoreStep{Position: int64(s.Position), Logprob: s.Logprob, Top: convert(s.Top, toTop)}
}

func fromStep(m *pb.ScoreStep) ScoreStep {
	return ScoreStep{Position: int(m.Position), Logprob: m.Logprob, Top: convert(m.Top, fromTop)}
}

func toStats(s Stats) *pb.StatsReply {
	return &pb.StatsReply{
		WeightBytes: s.WeightBytes, StateBytes: s.StateBytes, StateBudget: s.StateBudget, Sessions: int64(s.Sessions),
		Checkpoints: int64(s.Checkpoints), Active: int64(s.Active), Waiting: int64(s.Waiting),
		Prefilled: s.Prefilled, Decoded: s.Decoded, Cached: s.Cached,
		ExpertLoads: convert(s.ExpertLoads, func(rows []int64) *pb.ExpertLoads { return &pb.ExpertLoads{Rows: rows} }),
	}
}

func fromStats(m *pb.StatsReply) Stats {
	return Stats{
		WeightBytes: m.WeightBytes, StateBytes: m.StateBytes, StateBudget: m.StateBudget, Sessions: int(m.Sessions),
		Checkpoints: int(m.Checkpoints), Active: int(m.Active), Waiting: int(m.Waiting),
		Prefilled: m.Prefilled, Decoded: m.Decoded, Cached: m.Cached,
		ExpertLoads: convert(m.ExpertLoads, func(l *pb.ExpertLoads) []int64 { return l.GetRows() }),
	}
}
