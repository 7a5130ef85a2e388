package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	"github.com/sirupsen/logrus"
)

const (
	keptLines   = 200 // raw lines kept for the verdict, each cut at keptBytes
	keptBytes   = 512
	linesSecond = 100 // log entries of a worker passed on in one second; the rest is counted
)

// workerLog passes a worker's stderr on to logrus and keeps the last lines that were no log entries.
type workerLog struct {
	log logrus.FieldLogger

	mu      sync.Mutex
	kept    []string
	ending  int // lines kept when the first line of a panic came, plus one; 0 before
	second  time.Time
	count   int
	dropped int
}

// read consumes r until it ends.
func (l *workerLog) read(r io.Reader) { readLines(r, l.line) }

// raw returns the lines kept: the last ones, or when a panic began, those before it and the first ones of it.
func (l *workerLog) raw() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// line takes one line of output.
func (l *workerLog) line(line []byte) {
	level, message, fields, ok := parseEntry(line)
	if !ok {
		level, message = rawLevel(line), "output of the worker"
		fields = logrus.Fields{"line": short(string(line))}
		l.keep(line)
	}
	if !l.allow(time.Now()) {
		return
	}
	entry := l.log.WithFields(fields)
	switch level {
	case logrus.ErrorLevel:
		entry.Error(message)
	case logrus.WarnLevel:
		entry.Warn(message)
	case logrus.InfoLevel:
		entry.Info(message)
	default: // FieldLogger has no Trace
		entry.Debug(message)
	}
}

// keep remembers a line that is no log entry.
func (l *workerLog) keep(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	s := string(line[:min(len(line), keptBytes)])
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending == 0 && (goPanic.MatchString(s) || goSignal.MatchString(s)) {
		l.ending = len(l.kept) + 1
	}
	if l.ending > 0 && len(l.kept) >= l.ending+keptLines { // the rest of a long stack
		return
	}
	if l.kept = append(l.kept, s); l.ending == 0 && len(l.kept) > keptLines {
		l.kept = l.kept[1:]
	}
}

// allow bounds the entries of a second and says afterwards how many were dropped.
func (l *workerLog) allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.second) >= time.Second {
		if l.dropped > 0 {
			l.log.WithField("lines", l.dropped).Warn("worker wrote too many log lines, some were dropped")
		}
		l.second, l.count, l.dropped = now, 0, 0
	}
	if l.count++; l.count > linesSecond {
		l.dropped++
		return false
	}
	return true
}

// parseEntry reads an hclog entry: a JSON object whose @level and @message are strings. Anything else is a raw line.
func parseEntry(line []byte) (level logrus.Level, message string, fields logrus.Fields, ok bool) {
	if len(line) == 0 || line[0] != '{' {
		return 0, "", nil, false
	}
	var entry map[string]any
	if json.Unmarshal(line, &entry) != nil {
		return 0, "", nil, false
	}
	message, okMessage := entry["@message"].(string)
	name, okLevel := entry["@level"].(string)
	if !okMessage || !okLevel {
		return 0, "", nil, false
	}
	fields = logrus.Fields{}
	for k, v := range entry {
		switch v := v.(type) {
		case string:
			fields[k] = v
		case float64, bool:
			fields[k] = v
		default:
			fields[k] = short(fmt.Sprint(v))
		}
	}
	delete(fields, "@message")
	delete(fields, "@level")
	delete(fields, "@timestamp")
	delete(fields, "@caller")
	if component, ok := fields["component"].(string); ok {
		fields["component"] = "worker/" + component
	}
	switch strings.ToLower(name) {
	case "error":
		level = logrus.ErrorLevel
	case "warn", "warning":
		level = logrus.WarnLevel
	case "info":
		level = logrus.InfoLevel
	default:
		level = logrus.DebugLevel
	}
	return level, message, fields, true
}

// rawLevel judges a line that a native library or the Go runtime wrote.
func rawLevel(line []byte) logrus.Level {
	switch {
	case goPanic.Match(line), goSignal.Match(line), bytes.HasPrefix(line, []byte("[ERROR]")):
		return logrus.ErrorLevel
	case gpuLine.Match(line), bytes.HasPrefix(line, []byte("libc++abi")), bytes.HasPrefix(line, []byte("[WARN]")):
		return logrus.WarnLevel
	case bytes.HasPrefix(line, []byte("[INFO]")):
		return logrus.InfoLevel
	}
	return logrus.DebugLevel
}

// lineWriter cuts what is written into lines for a workerLog. go-plugin brings what the worker's Go code writes to
// os.Stdout and os.Stderr this way.
type lineWriter struct {
	logs *workerLog
	held []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.held = append(w.held, p...)
	for {
		i := bytes.IndexByte(w.held, '\n')
		if i < 0 && len(w.held) < maxLine {
			return len(p), nil
		}
		if i < 0 {
			i = len(w.held) - 1
		}
		w.logs.line(bytes.TrimSuffix(w.held[:i], []byte("\r")))
		w.held = w.held[i+1:]
	}
}

// pluginSink passes go-plugin's own messages on at debug level: what matters of them the manager says itself.
type pluginSink struct{ log logrus.FieldLogger }

func (s pluginSink) Accept(_ string, _ hclog.Level, message string, args ...any) {
	fields := logrus.Fields{}
	for i := 0; i+1 < len(args); i += 2 {
		fields[fmt.Sprint(args[i])] = args[i+1]
	}
	s.log.WithFields(fields).Debug(message)
}

// pluginLogger is the logger for go-plugin.
func pluginLogger(log logrus.FieldLogger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	l.RegisterSink(pluginSink{log})
	return l
}
