package api

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lilypad/protocol/fake"
	"lilypad/supervisor/process"
)

// An exchange is a file of three sections: what the fake model does, the request, and the response that must come. Run the
// tests with UPDATE=1 to write the responses anew; then read the difference.
func TestExchanges(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatal("no exchanges", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			model, rest, ok1 := strings.Cut(string(content), "-- request --\n")
			request, want, ok2 := strings.Cut(rest, "-- response --\n")
			if !ok1 || !ok2 {
				t.Fatal("the file lacks a section")
			}
			got := exchange(t, parseModel(t, model), request)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, []byte(model+"-- request --\n"+request+"-- response --\n"+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// parseModel reads lines "text: ...", "die at: 3" (once for each incarnation), "cause: killed" and "none".
func parseModel(t *testing.T, section string) *rig {
	t.Helper()
	r := &rig{}
	for line := range strings.Lines(section) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "-- model --":
		case "text":
			text, err := strconv.Unquote(value)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			r.text = text
		case "die at":
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			r.faults = append(r.faults, fake.Faults{Die: true, DieAt: n})
		case "cause":
			r.cause = process.Cause(value)
		case "none":
			r.none = true
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return r
}

// exchange sends a request as written and returns the response with what changes from run to run made constant.
func exchange(t *testing.T, r *rig, text string) string {
	t.Helper()
	s := serve(t, r, func(o *Options) { o.StartWait = 10 * time.Millisecond })
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(strings.TrimSuffix(body, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		if key, value, ok := strings.Cut(line, ": "); ok && key == "Host" {
			req.Host = value
		} else if ok {
			req.Header.Set(key, value)
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d\n", resp.StatusCode)
	var headers []string
	for key, values := range resp.Header {
		if !slices.Contains([]string{"Date", "Content-Length", "Connection"}, key) {
			headers = append(headers, key+": "+strings.Join(values, ", ")+"\n")
		}
	}
	slices.Sort(headers)
	out.WriteString(strings.Join(headers, "") + "\n" + mergeDeltas(string(b)))
	result := out.String()
	for _, n := range normal {
		result = n.find.ReplaceAllString(result, n.put)
	}
	return strings.TrimRight(result, "\n") + "\n"
}

var normal = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`\breq_[a-z2-7]{26}\b`), "req_ID"},
	{regexp.MustCompile(`\bchatcmpl-[a-z2-7]{26}\b`), "chatcmpl-ID"},
	{regexp.MustCompile(`"created":\d+`), `"created":0`},
	{regexp.MustCompile(`"seed":\d{6,}`), `"seed":0`},
	{regexp.MustCompile(`fp_[0-9a-f]{12}`), "fp_X"},
}

var delta = regexp.MustCompile(`"delta":\{"(content|reasoning_content)":"(.*?)"\},"finish_reason":null\}\]\}$`)

// mergeDeltas joins text chunks that follow each other: how many there are depends on the client's speed.
func mergeDeltas(body string) string {
	var out []string
	lastKind := ""
	for _, frame := range strings.SplitAfter(body, "\n\n") {
		m := delta.FindStringSubmatch(strings.TrimSuffix(frame, "\n\n"))
		if m == nil {
			out, lastKind = append(out, frame), ""
			continue
		}
		if m[1] == lastKind {
			last := out[len(out)-1]
			out[len(out)-1] = strings.Replace(last, `"},"finish_reason":null`, m[2]+`"},"finish_reason":null`, 1)
			continue
		}
		out, lastKind = append(out, frame), m[1]
	}
	return strings.Join(out, "")
}
