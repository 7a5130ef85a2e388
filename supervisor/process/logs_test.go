package process

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// collect returns a log and the entries that it takes.
func collect() (*workerLog, *[]logrus.Entry) {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrus.TraceLevel)
	var entries []logrus.Entry
	l.AddHook(&hook{func(e *logrus.Entry) { entries = append(entries, *e) }})
	return &workerLog{log: l.WithField("component", "process")}, &entries
}

func TestLines(t *testing.T) {
	tests := []struct {
		line    string
		level   logrus.Level
		message string
		fields  string // "key=value" that must be there
	}{
		{`{"@level":"info","@message":"loaded","@timestamp":"2026-01-02T03:04:05.000000Z","layers":40}`, logrus.InfoLevel, "loaded", "layers=40"},
		{`{"@level":"warn","@message":"m","component":"state"}`, logrus.WarnLevel, "m", "component=worker/state"},
		{`{"@level":"warning","@message":"m"}`, logrus.WarnLevel, "m", ""},
		{`{"@level":"error","@message":"m","err":"x"}`, logrus.ErrorLevel, "m", "err=x"},
		{`{"@level":"trace","@message":"m"}`, logrus.DebugLevel, "m", ""},
		{`{"@level":"odd","@message":"m","list":[1,{"a":2}]}`, logrus.DebugLevel, "m", "list=[1 map[a:2]]"},
		{`{"@message": 5}`, logrus.DebugLevel, "output of the worker", `line={"@message": 5}`},
		{`{"@level":{},"@message":"m"}`, logrus.DebugLevel, "output of the worker", ""},
		{`{"@level":"info","@message":"m","@timestamp":5}`, logrus.InfoLevel, "m", ""},
		{`not json`, logrus.DebugLevel, "output of the worker", "line=not json"},
		{"\xff\x00", logrus.DebugLevel, "output of the worker", "line=\uFFFD\x00"},
		{`[WARN] native`, logrus.WarnLevel, "output of the worker", ""},
		{`libc++abi: terminating`, logrus.WarnLevel, "output of the worker", ""},
		{`2026 lilypad[1] IOGPUMetalError: timeout`, logrus.WarnLevel, "output of the worker", ""},
		{`panic: x`, logrus.ErrorLevel, "output of the worker", "line=panic: x"},
		{`SIGSEGV: segmentation violation`, logrus.ErrorLevel, "output of the worker", ""},
	}
	for _, tt := range tests {
		l, entries := collect()
		l.line([]byte(tt.line))
		if len(*entries) != 1 {
			t.Fatalf("%s: %d entries", tt.line, len(*entries))
		}
		e := (*entries)[0]
		key, value, _ := strings.Cut(tt.fields, "=")
		if e.Level != tt.level || e.Message != tt.message || key != "" && fmt.Sprint(e.Data[key]) != value {
			t.Errorf("%s: %s %q %v", tt.line, e.Level, e.Message, e.Data)
		}
	}
}

func TestLongLinesAndRates(t *testing.T) {
	l, entries := collect()
	text := strings.Repeat("x", 100<<10) + "\nshort\n" + strings.Repeat("many\n", 1000) + "no end"
	l.read(strings.NewReader(text))
	if n := len(*entries); n > 2*linesSecond+2 {
		t.Errorf("%d entries of 1,003 lines in a moment", n)
	}
	l.second = time.Time{}
	l.line([]byte("later"))
	if e := (*entries)[len(*entries)-2]; e.Data["lines"] == nil {
		t.Errorf("dropped lines are not told: %q %v", e.Message, e.Data)
	}
	kept := l.raw()
	if len(kept) != keptLines || kept[len(kept)-1] != "later" || kept[len(kept)-2] != "no end" {
		t.Errorf("%d lines kept, the last ones %q", len(kept), kept[len(kept)-2:])
	}
}

func TestPanicKeepsItsHead(t *testing.T) {
	l, _ := collect()
	l.line([]byte("Metal: last words"))
	l.line([]byte("panic: the reason"))
	for i := range 1000 {
		l.line(fmt.Appendf(nil, "goroutine %d", i))
	}
	if kept := l.raw(); kept[0] != "Metal: last words" || kept[1] != "panic: the reason" || len(kept) > 2*keptLines+1 {
		t.Errorf("%d lines kept, first %q", len(kept), kept[:2])
	}
}

func TestLineWriter(t *testing.T) {
	l, _ := collect()
	w := &lineWriter{logs: l}
	for _, s := range []string{"one\ntw", "o\r\n", "", strings.Repeat("y", 2*maxLine), "\nend\n"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("write: %d %v", n, err)
		}
	}
	kept := l.raw()
	if kept[0] != "one" || kept[1] != "two" || kept[len(kept)-1] != "end" || len(w.held) > maxLine {
		t.Errorf("lines %d, %q", len(kept), kept[:2])
	}
	for _, s := range kept {
		if len(s) > keptBytes {
			t.Errorf("a line of %d bytes is kept", len(s))
		}
	}
}

// Whatever a worker writes, the supervisor survives it, and nothing is kept or logged without a bound.
func FuzzLine(f *testing.F) {
	for _, s := range []string{`{"@message": 5}`, `{"@level":"info","@message":"m","x":null}`, "panic: ", "{", "\x00\n\n", "SIGX9: "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, _ := collect()
		l.read(strings.NewReader(string(b)))
		classify(remains{lines: l.raw()})
	})
}
