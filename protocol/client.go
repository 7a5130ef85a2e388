package protocol

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	pb "lilypad/protocol/proto"
)

// client is the supervisor's side: an Engine whose calls go over a connection.
type client struct {
	rpc  pb.EngineClient
	gone context.Context // ends when go-plugin saw the process exit; kept since every call joins it with the caller's
}

var _ Engine = (*client)(nil)

// NewClient returns the Engine at the other end of conn. gone ends when the process is known to be dead.
func NewClient(gone context.Context, conn grpc.ClientConnInterface) Engine {
	return &client{rpc: pb.NewEngineClient(conn), gone: gone}
}

// join returns a context for one call that also ends with the process, and the conversion of the call's error.
func (c *client) join(ctx context.Context) (context.Context, context.CancelFunc, func(error) error) {
	joined, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.gone, cancel)
	return joined, func() { stop(); cancel() }, func(err error) error { return fromStatus(ctx, c.gone, err) }
}

// unary makes one call with a single answer.
func unary[A, B any](c *client, ctx context.Context, call func(context.Context, A, ...grpc.CallOption) (B, error), arg A) (B, error) {
	joined, end, convert := c.join(ctx)
	defer end()
	out, err := call(joined, arg)
	return out, convert(err)
}

// stream makes one call with a stream of answers, which take receives in order on this goroutine.
func stream[A, B any](c *client, ctx context.Context, call func(context.Context, A, ...grpc.CallOption) (grpc.ServerStreamingClient[B], error),
	arg A, take func(*B) error,
) error {
	joined, end, convert := c.join(ctx)
	defer end()
	s, err := call(joined, arg)
	if err != nil {
		return convert(err)
	}
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return convert(err)
		}
		if err := take(m); err != nil {
			return err
		}
	}
}

func (c *client) Hello(ctx context.Context) (Hello, error) {
	m, err := unary(c, ctx, c.rpc.Hello, &pb.HelloRequest{})
	if err != nil {
		return Hello{}, err
	}
	return fromHello(m), nil
}

func (c *client) Load(ctx context.Context, req LoadRequest, progress func(LoadProgress) error) (ModelInfo, error) {
	var model *pb.ModelInfo
	err := stream(c, ctx, c.rpc.Load, toLoad(req), func(m *pb.LoadReply) error {
		if m.Model != nil {
			model = m.Model
		}
		if p := m.Progress; p != nil && progress != nil {
			return progress(LoadProgress{Done: p.Done, Total: p.Total})
		}
		return nil
	})
	if err != nil {
		return ModelInfo{}, err
	}
	if model == nil {
		return ModelInfo{}, Errorf(CodeInternal, "load ended without a model")
	}
	return fromModel(model), nil
}

func (c *client) Tokenize(ctx context.Context, spans []Span) ([]int32, error) {
	m, err := unary(c, ctx, c.rpc.Tokenize, &pb.TokenizeRequest{Spans: convert(spans, toSpan)})
	if err != nil {
		return nil, err
	}
	return m.Ids, nil
}

func (c *client) Detokenize(ctx context.Context, ids []int32) (string, error) {
	m, err := unary(c, ctx, c.rpc.Detokenize, &pb.DetokenizeRequest{Ids: ids})
	if err != nil {
		return "", err
	}
	return m.Text, nil
}

func (c *client) Generate(ctx context.Context, req GenerateRequest, emit func(Event) error) error {
	return stream(c, ctx, c.rpc.Generate, toGenerate(req), func(m *pb.Event) error { return emit(fromEvent(m)) })
}

func (c *client) Score(ctx context.Context, req ScoreRequest, emit func(ScoreStep) error) error {
	return stream(c, ctx, c.rpc.Score, toScore(req), func(m *pb.ScoreStep) error { return emit(fromStep(m)) })
}

func (c *client) Stats(ctx context.Context) (Stats, error) {
	m, err := unary(c, ctx, c.rpc.Stats, &pb.StatsRequest{})
	if err != nil {
		return Stats{}, err
	}
	return fromStats(m), nil
}

func (c *client) Drain(ctx context.Context) error {
	_, err := unary(c, ctx, c.rpc.Drain, &pb.DrainRequest{})
	return err
}

func (c *client) Unload(ctx context.Context) error {
	_, err := unary(c, ctx, c.rpc.Unload, &pb.UnloadRequest{})
	return err
}
