package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildOnce makes the binary that users run: a normal build, whatever the test binary was built with.
var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lilypad-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "lilypad")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := buildOnce(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// server is a running `lilypad serve`.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	base string // http://host:port
	log  *bytes.Buffer
}

// startServer runs the demo model on a free port and waits for the line that names the address.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, log: &bytes.Buffer{}}
	s.cmd = exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir()}, args...)...)
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server ended before it was ready: %v\n%s", err, s.log)
	}
	_, address, found := strings.Cut(strings.TrimSpace(line), "http://")
	if !found {
		t.Fatalf("first line %q names no address", line)
	}
	s.base = "http://" + address
	return s
}

// stop ends the server, waits for it and returns its exit code.
func (s *server) stop(sig syscall.Signal) int {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Signal(sig)
		s.cmd.Wait()
	}
	return s.cmd.ProcessState.ExitCode()
}

// workers lists the pids of the server's children.
func (s *server) workers() []int { return childrenOf(s.t, s.cmd.Process.Pid) }

// kill sends SIGKILL to the one worker and returns its pid; it waits while none runs.
func (s *server) kill() int {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if pids := s.workers(); len(pids) == 1 {
			syscall.Kill(pids[0], syscall.SIGKILL)
			return pids[0]
		}
	}
	s.t.Fatalf("no worker to kill\n%s", s.log)
	return 0
}

// restart kills the idle worker, whose cached prefixes die with it, and waits until the next one is ready.
func (s *server) restart() {
	before := s.kill()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		pids := s.workers()
		if len(pids) != 1 || pids[0] == before {
			continue
		}
		if r, err := http.Get(s.base + "/readyz"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
	}
	s.t.Fatalf("no new worker is ready\n%s", s.log)
}

// answer is what a client got.
type answer struct {
	text      string
	reasoning string // not streamed answers only, as is usage
	usage     usage
	finishes  []string
	chunks    int
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// post sends a chat request; onChunk (streaming only) sees the answer so far after each content delta.
func (s *server) post(body map[string]any, onChunk func(answer)) (answer, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	defer http.DefaultClient.CloseIdleConnections() // they would count as the server's open files
	resp, err := http.Post(s.base+"/v1/chat/completions", "application/json", bytes.NewReader(data))
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return answer{}, fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	if body["stream"] == true {
		return readStream(resp.Body, onChunk)
	}
	var full struct {
		Choices []struct {
			Message struct {
				Content   string
				Reasoning string `json:"reasoning_content"`
			}
			Finish string `json:"finish_reason"`
		}
		Usage usage
	}
	if err := json.NewDecoder(resp.Body).Decode(&full); err != nil {
		return answer{}, err
	}
	c := full.Choices[0]
	return answer{text: c.Message.Content, reasoning: c.Message.Reasoning, usage: full.Usage, finishes: []string{c.Finish}}, nil
}

func readStream(body io.Reader, onChunk func(answer)) (answer, error) {
	var a answer
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return a, nil
		}
		var chunk struct {
			Error   json.RawMessage
			Choices []struct {
				Delta  struct{ Content string }
				Finish *string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return a, fmt.Errorf("frame %q: %w", data, err)
		}
		if chunk.Error != nil {
			return a, fmt.Errorf("error frame: %s", chunk.Error)
		}
		for _, c := range chunk.Choices {
			if c.Finish != nil {
				a.finishes = append(a.finishes, *c.Finish)
			}
			if c.Delta.Content == "" {
				continue
			}
			a.text += c.Delta.Content
			a.chunks++
			if onChunk != nil {
				onChunk(a)
			}
		}
	}
	return a, fmt.Errorf("the stream ended without [DONE] after %d chunks: %w", a.chunks, lines.Err())
}
