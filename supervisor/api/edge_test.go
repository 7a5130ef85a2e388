package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
	"lilypad/protocol/fake"
	"lilypad/supervisor/process"
)

// eventually waits for something that happens soon, however slow the machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not happen", what)
}

func chatBody(stream bool, more string) string {
	return fmt.Sprintf(`{"stream":%v,"messages":[{"role":"user","content":"hi"}],%s%s}`, stream, noThink, more)
}

func TestAClientThatLeavesStopsTheGeneration(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		r := &rig{text: strings.Repeat("lily ", 190), slow: 10 * time.Millisecond}
		s := serve(t, r, nil)
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(chatBody(stream, "")))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		eventually(t, "a token", func() bool { return r.engineActive() && r.stats(t).Decoded > 2 })
		cancel()
		<-done
		eventually(t, "the end of the generation", func() bool { return r.stats(t).Active == 0 })
		if n := r.stats(t).Decoded; n > 900 {
			t.Errorf("stream %v: the engine decoded all %d tokens", stream, n)
		}
	}
}

func (r *rig) engineActive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine != nil
}

func TestAClientThatReadsNothingIsCutOff(t *testing.T) {
	t.Parallel()
	// The engine sends events for ever, so that any buffer of the kernel fills.
	endless := func(e protocol.Engine) protocol.Engine { return flood{e} }
	r := &rig{wrap: endless}
	ended := make(chan string, 1)
	s := serve(t, r, func(o *Options) {
		o.WriteLimit = 100 * time.Millisecond
		log := logrus.New()
		log.SetOutput(io.Discard)
		log.AddHook(&lines{seen: func(e *logrus.Entry) { ended <- fmt.Sprint(e.Data["code"]) }})
		o.Log = log
	})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := chatBody(true, "")
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if code := <-ended; code != "client_gone" {
		t.Errorf("ended with %s", code)
	}
}

// flood emits big tokens until its caller ends the call.
type flood struct{ protocol.Engine }

func (flood) Generate(ctx context.Context, _ protocol.GenerateRequest, emit func(protocol.Event) error) error {
	big := strings.Repeat("x", 64<<10)
	if err := emit(protocol.Event{Started: &protocol.Started{}}); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := emit(protocol.Event{Tokens: []protocol.Token{{ID: 'x', Text: big}}}); err != nil {
			return err
		}
		time.Sleep(100 * time.Microsecond)
	}
	return ctx.Err()
}

// lines is a hook that sees request lines.
type lines struct{ seen func(*logrus.Entry) }

func (*lines) Levels() []logrus.Level { return logrus.AllLevels }
func (l *lines) Fire(e *logrus.Entry) error {
	if e.Message == "request" {
		l.seen(e)
	}
	return nil
}

func TestBodiesThatNeverEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, &rig{text: "x"}, func(o *Options) { o.ReadLimit = 50 * time.Millisecond })
	for path, want := range map[string]int{"/v1/chat/completions": http.StatusBadRequest, "/v1/nothing": http.StatusNotFound} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", path)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != want {
			t.Fatalf("%s: got %v, %v", path, answer, err)
		}
		answer.Body.Close()
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, &rig{text: "x"}, nil)
	big := io.MultiReader(strings.NewReader(`{"messages":[{"role":"user","content":"`), io.LimitReader(letters{}, maxBody))
	resp, err := http.Post(s.URL+"/v1/chat/completions", "", big)
	if err != nil {
		t.Skip("the connection was closed before the answer could be read:", err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(b), "request_too_large") {
		t.Errorf("got %d %s", resp.StatusCode, b)
	}
}

type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

func TestKeepAliveChunks(t *testing.T) {
	t.Parallel()
	s := serve(t, &rig{text: "ab", slow: 400 * time.Millisecond}, func(o *Options) { o.KeepAlive = 50 * time.Millisecond })
	_, body, _ := post(t, s, chatBody(true, ""))
	frames := strings.Split(strings.TrimSpace(body), "\n\n")
	idle := 0
	for i, f := range frames {
		if strings.Contains(f, `"lilypad":{"phase":`) {
			idle++
			if i == 0 || !strings.Contains(f, `"choices":[{"index":0,"delta":{},"finish_reason":null}]`) {
				t.Errorf("frame %d: %s", i, f)
			}
		}
		if strings.Contains(f, `"error"`) || strings.HasPrefix(f, "event:") {
			t.Errorf("frame %d: %s", i, f)
		}
	}
	if idle == 0 || frames[len(frames)-1] != "data: [DONE]" || strings.Count(body, `"role"`) != 1 {
		t.Errorf("%d signs of life in\n%s", idle, body)
	}
}

func TestStopEndsRunningAnswers(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		stop, end := context.WithCancel(t.Context())
		r := &rig{text: strings.Repeat("lily ", 190), slow: 20 * time.Millisecond}
		s := serve(t, r, func(o *Options) { o.Stop = stop })
		go func() {
			for !r.engineActive() || r.stats(t).Decoded < 3 {
				time.Sleep(5 * time.Millisecond)
			}
			end()
		}()
		status, body, _ := post(t, s, chatBody(stream, ""))
		end()
		want := http.StatusServiceUnavailable
		if stream {
			want = http.StatusOK
			if !strings.HasSuffix(body, "\n\ndata: [DONE]\n\n") || strings.Contains(body, `"finish_reason":"`) {
				t.Errorf("stream ends with %s", body[max(0, len(body)-400):])
			}
		}
		if status != want || !strings.Contains(body, `"code":"cancelled_by_operator"`) {
			t.Errorf("got %d %s", status, body)
		}
	}
}

func TestNonStreamDeadline(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"": 285 * time.Second, "600": 595 * time.Second, "x": 285 * time.Second, "-4": 285 * time.Second} {
		r, _ := http.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("X-Stainless-Timeout", header)
		if got := patience(r); got != want {
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
}

func TestReadyzTellsWhyNot(t *testing.T) {
	t.Parallel()
	h := Health{Reason: "loading", Done: 3, Total: 9, Incarnation: 2}
	s := serve(t, &rig{}, func(o *Options) { o.Health = func() Health { return h } })
	resp, err := http.Get(s.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 503 || string(b) != `{"incarnation":2,"load":{"done_bytes":3,"total_bytes":9},"reason":"loading","status":"not ready"}` {
		t.Errorf("got %d %s", resp.StatusCode, b)
	}
}

func TestARequestWaitsForARestart(t *testing.T) {
	t.Parallel()
	late := &lateSource{rig: &rig{text: "x"}, after: 100 * time.Millisecond}
	s := serve(t, late.rig, func(o *Options) { o.Workers = late })
	if status, body, _ := post(t, s, chatBody(false, "")); status != http.StatusOK {
		t.Errorf("got %d %s", status, body)
	}
}

type lateSource struct {
	rig   *rig
	after time.Duration
	once  sync.Once
}

func (l *lateSource) Worker(ctx context.Context) (*process.Worker, error) {
	l.once.Do(func() { time.Sleep(l.after) })
	return l.rig.Worker(ctx)
}

func TestAPanicIsA500(t *testing.T) {
	t.Parallel()
	s := serve(t, &rig{}, func(o *Options) { o.Health = func() Health { panic("BUG: broken") } })
	resp, err := http.Get(s.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 500 || !strings.Contains(string(b), "internal_error") || strings.Contains(string(b), "broken") {
		t.Errorf("got %d %s", resp.StatusCode, b)
	}
}

func TestLogsHoldNoText(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var out bytes.Buffer
	log := logrus.New()
	log.SetLevel(logrus.TraceLevel)
	log.SetOutput(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(b)
	}))
	r := &rig{text: "canary answer", faults: []fake.Faults{{Die: true, DieAt: 3}, {Die: true}}}
	s := serve(t, r, func(o *Options) { o.Log = log })
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"canary"}],"seed":1}`,
		`{"messages":[{"role":"user","content":"canary"}],"stream":true}`,
		`{"messages":[{"role":"canary","content":"canary"}]}`,
		`{"messages":"canary"}`,
		`canary`,
		`{"model":"canary","messages":[{"role":"user","content":"x"}]}`,
	} {
		post(t, s, body)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(out.String(), "msg=request"); n != 6 || strings.Contains(out.String(), "canary") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
