package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "lilypad/protocol/proto"
)

// roundTrip checks that a value survives its way over the wire. An empty slice may come back as nil.
func roundTrip[V any, M proto.Message](t *testing.T, to func(V) M, from func(M) V, empty M) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Make[V]().Draw(t, "value")
		wire, err := proto.Marshal(to(want))
		if err != nil {
			t.Fatal(err)
		}
		m := proto.Clone(empty).(M)
		if err := proto.Unmarshal(wire, m); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, from(m), cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); d != "" {
			t.Fatal(d)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	t.Run("Hello", func(t *testing.T) { roundTrip(t, toHello, fromHello, &pb.HelloReply{}) })
	t.Run("LoadRequest", func(t *testing.T) { roundTrip(t, toLoad, fromLoad, &pb.LoadRequest{}) })
	t.Run("ModelInfo", func(t *testing.T) { roundTrip(t, toModel, fromModel, &pb.ModelInfo{}) })
	t.Run("Span", func(t *testing.T) { roundTrip(t, toSpan, fromSpan, &pb.Span{}) })
	t.Run("GenerateRequest", func(t *testing.T) { roundTrip(t, toGenerate, fromGenerate, &pb.GenerateRequest{}) })
	t.Run("Event", func(t *testing.T) { roundTrip(t, toEvent, fromEvent, &pb.Event{}) })
	t.Run("ScoreRequest", func(t *testing.T) { roundTrip(t, toScore, fromScore, &pb.ScoreRequest{}) })
	t.Run("ScoreStep", func(t *testing.T) { roundTrip(t, toStep, fromStep, &pb.ScoreStep{}) })
	t.Run("Stats", func(t *testing.T) { roundTrip(t, toStats, fromStats, &pb.StatsReply{}) })
}

// What users type, how they call their folders and what files contain need not be UTF-8.
func TestBytesThatAreNoText(t *testing.T) {
	const odd = "a\xff\xc3"
	for name, m := range map[string]proto.Message{
		"span": toSpan(Span{Text: odd}), "model": toLoad(LoadRequest{Model: odd}), "id": toGenerate(GenerateRequest{ID: odd}),
		"info": toModel(ModelInfo{Name: odd, ChatTemplate: odd, BOS: odd, EOS: odd, Added: []AddedToken{{Content: odd}}}),
	} {
		if _, err := proto.Marshal(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
