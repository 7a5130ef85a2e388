package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"lilypad/protocol"
	"lilypad/protocol/fake"
	"lilypad/supervisor/config"
	"lilypad/supervisor/process"
)

// The test binary is also the worker.
func TestMain(m *testing.M) {
	if protocol.StartedBySupervisor(os.Getenv) {
		fake.Main(fake.Options{})
	}
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	goleak.VerifyTestMain(m)
}

// service is a Supervisor over fake worker processes.
type service struct {
	url  string
	sup  *Supervisor
	stop func() error // asks for the end and waits for it
}

func testConfig() config.Config {
	c := config.Default([]string{"HOME=/nonexistent"})
	c.Listen = "127.0.0.1:0"
	return c
}

func prepare(t *testing.T, c config.Config, faults string) *Supervisor {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	s, err := New(c, log, Options{
		Command: []string{os.Args[0]},
		Env:     append(os.Environ(), fake.FaultsEnv+"="+faults),
		Limits:  process.Limits{Backoff: []time.Duration{10 * time.Millisecond}, Breaker: 3, Drain: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, c config.Config, faults string) *service {
	t.Helper()
	s := &service{sup: prepare(t, c, faults)}
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- s.sup.Run(ctx, func(a net.Addr) { ready <- "http://" + a.String() })
	}()
	s.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case s.url = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("ended before it was ready: %v", err)
	}
	return s
}

// text asks for n tokens and returns the answer.
func (s *service) text(t *testing.T, n int, stream bool, each func(chunk int)) (text, raw string) {
	t.Helper()
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"hi"}],"temperature":0,"max_tokens":%d,"stream":%v}`, n, stream)
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return "", ""
	}
	defer resp.Body.Close()
	type piece struct{ Content string }
	var part struct {
		Choices []struct{ Message, Delta piece }
	}
	if !stream {
		b, _ := io.ReadAll(resp.Body)
		if err := json.Unmarshal(b, &part); err != nil || len(part.Choices) != 1 {
			return "", string(b)
		}
		return part.Choices[0].Message.Content, string(b)
	}
	lines := bufio.NewScanner(resp.Body)
	for chunk := 0; lines.Scan(); {
		raw += lines.Text() + "\n"
		data, ok := strings.CutPrefix(lines.Text(), "data: {")
		if !ok {
			continue
		}
		part.Choices = nil
		if json.Unmarshal([]byte("{"+data), &part) == nil && len(part.Choices) == 1 {
			text += part.Choices[0].Delta.Content
		}
		if chunk++; each != nil {
			each(chunk)
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return text, raw
}

func TestKilledWorkersGoUnnoticed(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(), "slow=1ms")
	want, _ := s.text(t, 200, false, nil)
	if len(want) < 200 {
		t.Fatalf("got %q", want)
	}
	for _, at := range []int{1, 7, 60} {
		got, raw := s.text(t, 200, true, func(chunk int) {
			if chunk == at {
				killWorker(t, s)
			}
		})
		if got != want || !strings.Contains(raw, `"finish_reason":"length"`) || !strings.Contains(raw, `"cause":"killed"`) {
			t.Errorf("killed at chunk %d: got %q, want %q\n%s", at, got, want, raw[max(0, len(raw)-500):])
		}
	}
}

func killWorker(t *testing.T, s *service) {
	t.Helper()
	p, err := os.FindProcess(s.sup.Workers().Status().PID)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(), "")
	if code, body := get(t, s.url+"/readyz"); code != 200 {
		t.Errorf("got %d %s", code, body)
	}
	if code, _ := get(t, s.url+"/livez"); code != 200 {
		t.Errorf("livez: %d", code)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestTheAPIAnswersDuringLoad(t *testing.T) {
	t.Parallel()
	sup := prepare(t, testConfig(), "hang_in=load")
	listener, err := sup.listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	managed := make(chan error, 1)
	go func() { managed <- sup.workers.Run(ctx) }()
	w := sup.newWeb(listener)
	if code, body := get(t, "http://"+listener.Addr().String()+"/readyz"); code != 503 || !strings.Contains(body, `"reason":"starting"`) {
		t.Errorf("got %d %s", code, body)
	}
	w.stop(0)
	cancel()
	if err := <-managed; err != nil {
		t.Error(err)
	}
}

func TestStopDuringLoad(t *testing.T) {
	t.Parallel()
	sup := prepare(t, testConfig(), "hang_in=load")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := sup.Run(ctx, func(net.Addr) { t.Error("ready") }); err != nil {
		t.Error(err)
	}
}

// TestModelsThatCanNotChat: a model that would refuse every request is refused at the start.
func TestModelsThatCanNotChat(t *testing.T) {
	t.Parallel()
	sup := prepare(t, testConfig(), "")
	for _, c := range []struct{ name, template, want string }{
		{"none", "", "put its chat_template.jinja beside its config.json"},
		{"broken", "{% for x in %}{{ ", "can't be used"},
		{"endless", "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}", "can't be used"},
		{"good", fake.DefaultInfo().ChatTemplate, ""},
	} {
		info := fake.DefaultInfo()
		info.ChatTemplate = c.template
		err := sup.canChat(info)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	c := testConfig()
	c.Model = "/nowhere/missing"
	if err := prepare(t, c, "").Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "/nowhere/missing: no config.json") {
		t.Errorf("refused model: got %v", err)
	}
	if err := prepare(t, testConfig(), "die_in=load,how=SEGV").Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "native_crash") {
		t.Errorf("worker that always crashes: got %v", err)
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c = testConfig()
	c.Listen = taken.Addr().String()
	if err := prepare(t, c, "").Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), c.Listen+" is in use") || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("taken port: got %v", err)
	}
	c.Listen = "0.0.0.0:0"
	if _, err := New(c, logrus.New(), Options{}); err == nil {
		t.Error("an address that others can reach was taken")
	}
}

func TestStopDrains(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name  string
		drain time.Duration
		whole bool
	}{{"running answers finish", time.Minute, true}, {"long ones end with an error", 0, false}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			c := testConfig()
			c.Drain = x.drain
			s := start(t, c, "slow=3ms")
			stopped := make(chan error, 1)
			var once sync.Once
			text, raw := s.text(t, 200, true, func(chunk int) {
				if chunk == 5 {
					once.Do(func() { go func() { stopped <- s.stop() }() })
				}
			})
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if whole := strings.Contains(raw, `"finish_reason":"length"`); whole != x.whole || !whole && !strings.Contains(raw, `"code":"cancelled_by_operator"`) {
				t.Errorf("%d bytes: ...%s", len(text), raw[max(0, len(raw)-500):])
			}
			if !strings.HasSuffix(raw, "data: [DONE]\n\n") {
				t.Error("the stream has no end mark")
			}
			if _, err := http.Get(s.url + "/livez"); err == nil {
				t.Error("somebody still listens")
			}
		})
	}
}

func TestPoisonLeavesTheServiceAlive(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(), "die_on_prompt=hi,how=SEGV")
	if _, raw := s.text(t, 5, false, nil); !strings.Contains(raw, `"code":"engine_crashed"`) || !strings.Contains(raw, `"retryable":false`) {
		t.Errorf("got %s", raw)
	}
	body := `{"messages":[{"role":"user","content":"good"}],"max_tokens":5}`
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 {
		t.Errorf("got %d %s", resp.StatusCode, b)
	}
}
