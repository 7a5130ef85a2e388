package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lilypad/protocol/fake"
	"lilypad/supervisor/process"
)

// tale passes everything that a seam could hurt: reasoning, the marker, characters of two to four bytes, half a stop string and
// a whole one.
const tale = "Let me th\u00efnk.</think>\n\nSTO, not yet. W\u00f6rld \u65e5\u672c \U0001F600 ST <b> STOP never seen"

// received reads what a client got of an answer: its texts, its finish reason and its error code.
func received(t *testing.T, body string, stream bool) (reasoning, content, finish, code string) {
	t.Helper()
	type texts struct {
		Content   string
		Reasoning string `json:"reasoning_content"`
	}
	for _, frame := range strings.Split(strings.TrimSpace(body), "\n\n") {
		data := strings.TrimPrefix(frame, "data: ")
		if stream && data == "[DONE]" {
			continue
		}
		var a struct {
			Choices []struct {
				Message, Delta texts
				Finish         string `json:"finish_reason"`
			}
			Error *struct{ Code string }
		}
		if err := json.Unmarshal([]byte(data), &a); err != nil {
			t.Fatalf("%v in %q", err, frame)
		}
		for _, c := range a.Choices {
			reasoning += c.Message.Reasoning + c.Delta.Reasoning
			content += c.Message.Content + c.Delta.Content
			finish += c.Finish
		}
		if a.Error != nil {
			code += a.Error.Code
		}
	}
	return reasoning, content, finish, code
}

func TestDeathMatrix(t *testing.T) {
	t.Parallel()
	ask := func(r *rig, stream bool) (reasoning, content, finish, code string) {
		s := serve(t, r, nil)
		defer s.Close()
		_, body, _ := post(t, s, fmt.Sprintf(`{"messages":[{"role":"user","content":"hi"}],"stop":["STOP","never"],"stream":%v}`, stream))
		if stream && !strings.HasSuffix(body, "\n\ndata: [DONE]\n\n") {
			t.Errorf("the stream has no end mark: %q", body[max(0, len(body)-200):])
		}
		return received(t, body, stream)
	}
	reasoning, content, _, _ := ask(&rig{text: tale}, false)
	if reasoning != "Let me th\u00efnk." || content != "STO, not yet. W\u00f6rld \u65e5\u672c \U0001F600 ST <b> " {
		t.Fatalf("undisturbed: %q, %q", reasoning, content)
	}
	for _, stream := range []bool{true, false} {
		// Once at every place, by a crash that is charged to the request: the client gets everything.
		faults := []fake.Faults{{DieIn: fake.PlacePrefill}, {DieIn: fake.PlaceDone}}
		for k := range len(tale) {
			faults = append(faults, fake.Faults{Die: true, DieAt: k})
		}
		for _, f := range faults {
			r, c, finish, code := ask(&rig{text: tale, faults: []fake.Faults{f}}, stream)
			if r != reasoning || c != content || finish != "stop" || code != "" {
				t.Errorf("stream %v, %+v: got %q, %q, %s, %s", stream, f, r, c, finish, code)
			}
		}
		// Again and again at the same place: the client gets the beginning and one error.
		for _, k := range []int{0, 3, 20, 40} {
			for cause, want := range map[process.Cause]string{process.Crash: "engine_crashed", process.Killed: "engine_crashed",
				process.Jetsam: "engine_oom", process.GPUFault: "gpu_error", process.Stalled: "engine_stalled"} {
				dead := fake.Faults{Die: true}
				r, c, finish, code := ask(&rig{text: tale, cause: cause, faults: []fake.Faults{{Die: true, DieAt: k}, dead, dead, dead}}, stream)
				if code != want || finish != "" || !strings.HasPrefix(reasoning, r) || !strings.HasPrefix(content, c) {
					t.Errorf("stream %v, %s at %d: got %q, %q, %s, %s", stream, cause, k, r, c, finish, code)
				}
			}
		}
	}
}
