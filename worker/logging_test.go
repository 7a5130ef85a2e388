package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// parse reads a line by the rules of go-plugin's host (its log_entry.go), which panics on what is no string.
func parse(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var raw map[string]any
	if err := json.Unmarshal(line, &raw); err != nil {
		t.Fatalf("line %s: %v", line, err)
	}
	for _, key := range []string{"@message", "@level", "@timestamp"} {
		if _, ok := raw[key].(string); !ok {
			t.Fatalf("line %s: %s is %v, want a string", line, key, raw[key])
		}
	}
	stamp := raw["@timestamp"].(string)
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z07:00", stamp); err != nil {
		t.Errorf("timestamp: %v", err)
	}
	if !regexp.MustCompile(`\.\d{6}(Z|[+-]\d\d:\d\d)$`).MatchString(stamp) {
		t.Errorf("timestamp %s, want six fractional digits and a zone", stamp)
	}
	return raw
}

func TestFormatter(t *testing.T) {
	var out bytes.Buffer
	log := &logrus.Logger{Out: &out, Formatter: Formatter{}, Level: logrus.TraceLevel, Hooks: logrus.LevelHooks{}, ExitFunc: func(int) {}}
	log.WithFields(logrus.Fields{
		"component": "worker", "tokens": 12, "elapsed": time.Second, "err": errors.New("a \"quoted\"\nline"),
		"nan": math.NaN(), "channel": make(chan int), "@message": 5, "nothing": nil, "long": strings.Repeat("x", 100_000),
	}).Warn("something\nhappened")
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 {
		t.Fatalf("%d lines, want 1", n)
	}
	if out.Len() > 60_000 {
		t.Errorf("a line of %d bytes, want less than the host's 64 KiB", out.Len())
	}
	raw := parse(t, out.Bytes())
	for key, want := range map[string]any{
		"@level": "warn", "@message": "something\nhappened", "@module": "worker", "tokens": 12.0, "elapsed": "1s",
		"err": "a \"quoted\"\nline", "nan": "NaN", "field @message": "5", "nothing": nil,
	} {
		if raw[key] != want {
			t.Errorf("%s is %v, want %v", key, raw[key], want)
		}
	}
}

func TestFormatterLevelsAndTimes(t *testing.T) {
	want := map[logrus.Level]string{
		logrus.TraceLevel: "trace", logrus.DebugLevel: "debug", logrus.InfoLevel: "info", logrus.WarnLevel: "warn",
		logrus.ErrorLevel: "error", logrus.FatalLevel: "error", logrus.PanicLevel: "error",
	}
	times := []time.Time{
		time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), // no fraction
		time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.FixedZone("", -3600)),
	}
	for level, name := range want {
		for _, at := range times {
			line, err := Formatter{}.Format(&logrus.Entry{Level: level, Time: at, Message: "m"})
			if err != nil {
				t.Fatal(err)
			}
			if got := parse(t, line)["@level"]; got != name {
				t.Errorf("level %v is %v, want %s", level, got, name)
			}
		}
	}
}
