package worker

import (
	"encoding/json"
	"fmt"

	"github.com/sirupsen/logrus"
)

// Formatter writes logrus entries as hclog's JSON, which go-plugin's host side parses: "@level" with hclog's names,
// "@message", and "@timestamp" with exactly six fractional digits and a zone (any other form is logged there as raw text).
// "component" becomes "@module".
type Formatter struct{}

const (
	timeLayout = "2006-01-02T15:04:05.000000Z07:00"
	// longText bounds each value: the host cuts lines at 64 KiB, and half a line is no JSON.
	longText = 4096
)

var _ logrus.Formatter = Formatter{}

// Format implements logrus.Formatter. A field that is no JSON is written as text.
func (Formatter) Format(e *logrus.Entry) ([]byte, error) {
	line := map[string]any{
		"@level": levelName(e.Level), "@message": shortened(e.Message), "@timestamp": e.Time.Format(timeLayout),
	}
	for key, value := range e.Data {
		switch key {
		case "component":
			line["@module"] = fmt.Sprint(value)
		case "@level", "@message", "@timestamp", "@module":
			line["field "+key] = fmt.Sprint(value)
		default:
			line[key] = plain(value)
		}
	}
	out, err := json.Marshal(line)
	return append(out, '\n'), err
}

// levelName is hclog's name of a level.
func levelName(l logrus.Level) string {
	switch l {
	case logrus.TraceLevel:
		return "trace"
	case logrus.DebugLevel:
		return "debug"
	case logrus.InfoLevel:
		return "info"
	case logrus.WarnLevel:
		return "warn"
	}
	return "error"
}

// plain is a value that json.Marshal takes.
func plain(value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case error:
		return shortened(v.Error())
	case fmt.Stringer:
		return shortened(v.String())
	case string:
		return shortened(v)
	}
	if data, err := json.Marshal(value); err == nil && len(data) <= longText {
		return json.RawMessage(data)
	}
	return shortened(fmt.Sprint(value))
}

func shortened(s string) string {
	if len(s) <= longText {
		return s
	}
	return s[:longText] + " ..."
}
