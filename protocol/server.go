package protocol

import (
	"context"

	"google.golang.org/grpc"

	pb "lilypad/protocol/proto"
)

// server is the worker's side: it answers calls from a connection with an Engine. The context of a call ends when the
// caller cancels or the connection breaks. Sending blocks once about 64 KiB are unread, so an engine that must not wait
// for a slow reader buffers in front of emit and gives up with CodeSlowReader.
type server struct {
	pb.UnimplementedEngineServer
	engine Engine
}

var _ pb.EngineServer = (*server)(nil)

func (s *server) Hello(ctx context.Context, _ *pb.HelloRequest) (*pb.HelloReply, error) {
	h, err := s.engine.Hello(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	return toHello(h), nil
}

func (s *server) Load(req *pb.LoadRequest, out grpc.ServerStreamingServer[pb.LoadReply]) error {
	info, err := s.engine.Load(out.Context(), fromLoad(req), func(p LoadProgress) error {
		return out.Send(&pb.LoadReply{Progress: &pb.LoadProgress{Done: p.Done, Total: p.Total}})
	})
	if err != nil {
		return toStatus(err)
	}
	return out.Send(&pb.LoadReply{Model: toModel(info)})
}

func (s *server) Tokenize(ctx context.Context, req *pb.TokenizeRequest) (*pb.TokenizeReply, error) {
	ids, err := s.engine.Tokenize(ctx, convert(req.Spans, fromSpan))
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.TokenizeReply{Ids: ids}, nil
}

func (s *server) Detokenize(ctx context.Context, req *pb.DetokenizeRequest) (*pb.DetokenizeReply, error) {
	text, err := s.engine.Detokenize(ctx, req.Ids)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.DetokenizeReply{Text: text}, nil
}

func (s *server) Generate(req *pb.GenerateRequest, out grpc.ServerStreamingServer[pb.Event]) error {
	return toStatus(s.engine.Generate(out.Context(), fromGenerate(req), func(e Event) error { return out.Send(toEvent(e)) }))
}

func (s *server) Score(req *pb.ScoreRequest, out grpc.ServerStreamingServer[pb.ScoreStep]) error {
	return toStatus(s.engine.Score(out.Context(), fromScore(req), func(st ScoreStep) error { return out.Send(toStep(st)) }))
}

func (s *server) Stats(ctx context.Context, _ *pb.StatsRequest) (*pb.StatsReply, error) {
	st, err := s.engine.Stats(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	return toStats(st), nil
}

func (s *server) Drain(ctx context.Context, _ *pb.DrainRequest) (*pb.DrainReply, error) {
	if err := s.engine.Drain(ctx); err != nil {
		return nil, toStatus(err)
	}
	return &pb.DrainReply{}, nil
}

func (s *server) Unload(ctx context.Context, _ *pb.UnloadRequest) (*pb.UnloadReply, error) {
	if err := s.engine.Unload(ctx); err != nil {
		return nil, toStatus(err)
	}
	return &pb.UnloadReply{}, nil
}
