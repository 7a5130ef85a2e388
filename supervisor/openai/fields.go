package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// fields reads typed values out of a request and keeps the first complaint.
type fields struct {
	top map[string]json.RawMessage
	bad *Error
}

func (f *fields) fail(e *Error) {
	if f.bad == nil {
		f.bad = e
	}
}

// raw returns the value of a field that was sent and starts with one of the bytes of first; anything else sent is
// a complaint that says what is wanted.
func (f *fields) raw(name, first, want string) json.RawMessage {
	value, sent := f.top[name]
	if !sent {
		return nil
	}
	if bytes.IndexByte([]byte(first), value[0]) < 0 {
		f.fail(Invalid(name, "%s must be %s, not %s", name, want, kindOf(value)))
		return nil
	}
	return value
}

func (f *fields) object(name string) json.RawMessage { return f.raw(name, "{", "an object") }

func (f *fields) array(name string) json.RawMessage {
	value := f.raw(name, "[", "an array")
	if value != nil && len(bytes.TrimSpace(value[1:])) == 1 {
		f.fail(Invalid(name, "%s is empty: send at least one", name))
	}
	return value
}

func (f *fields) text(name string) string {
	var s string
	if value := f.raw(name, `"`, "a string"); value != nil {
		_ = json.Unmarshal(value, &s) // the decoder has already read the whole body once
	}
	return s
}

func (f *fields) flag(name string) bool {
	return string(f.raw(name, "tf", "a boolean")) == "true"
}

const digits = "-0123456789"

// number reads a number between low and high, or above low if open.
func (f *fields) number(name string, low, high float64, open bool) *float64 {
	value := f.raw(name, digits, "a number")
	if value == nil {
		return nil
	}
	x, err := strconv.ParseFloat(string(value), 64)
	if err != nil || x < low || x > high || open && x == low {
		from := "at least"
		if open {
			from = "more than"
		}
		f.fail(Invalid(name, "%s is %s; it must be %s %v and at most %v", name, Shorten(string(value)), from, low, high))
		return nil
	}
	return &x
}

// integer reads a whole number of at least low; 5.0 and 1e2 are whole.
func (f *fields) integer(name string, low int64) (n int64, sent bool) {
	value := f.raw(name, digits, "an integer")
	if value == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		x, bad := strconv.ParseFloat(string(value), 64)
		if bad != nil || x != math.Trunc(x) || math.Abs(x) >= 1<<63 {
			f.fail(Invalid(name, "%s is %s; it must be an integer of 64 bits", name, Shorten(string(value))))
			return 0, false
		}
		n = int64(x)
	}
	if n < low {
		f.fail(Invalid(name, "%s is %d; it must be at least %d", name, n, low))
		return 0, false
	}
	return n, true
}

func (f *fields) includeUsage() bool {
	value := f.object("stream_options")
	if value == nil {
		return false
	}
	var inner map[string]json.RawMessage
	_ = json.Unmarshal(value, &inner)
	switch string(inner["include_usage"]) {
	case "true":
		return true
	case "false", "null", "":
		return false
	}
	f.fail(Invalid("stream_options.include_usage", "stream_options.include_usage must be a boolean, not %s", kindOf(inner["include_usage"])))
	return false
}

// maxTokens never lets either of the two names be exceeded.
func (f *fields) maxTokens() int {
	limit := int64(0)
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if n, sent := f.integer(name, 1); sent && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return int(min(limit, math.MaxInt32))
}

func (f *fields) topK() *int {
	n, sent := f.integer("top_k", -1)
	if !sent {
		return nil
	}
	k := int(min(max(n, 0), math.MaxInt32))
	return &k
}

// seed takes any 64 bits, written with or without a sign.
func (f *fields) seed() *uint64 {
	if seed, err := strconv.ParseUint(string(f.top["seed"]), 10, 64); err == nil {
		return &seed
	}
	n, sent := f.integer("seed", math.MinInt64)
	if !sent {
		return nil
	}
	seed := uint64(n)
	return &seed
}

func (f *fields) stops() []string {
	value := f.raw("stop", `"[`, "a string or an array of strings")
	if value == nil {
		return nil
	}
	var sent []*string
	if value[0] == '"' {
		one := f.text("stop")
		sent = []*string{&one}
	} else if json.Unmarshal(value, &sent) != nil {
		f.fail(Invalid("stop", "stop must be a string or an array of strings"))
		return nil
	}
	if len(sent) > MaxStops {
		f.fail(Invalid("stop", "stop has %d strings; at most %d are allowed", len(sent), MaxStops))
	}
	var stops []string
	for _, s := range sent {
		switch {
		case s == nil:
			f.fail(Invalid("stop", "stop must be a string or an array of strings; it has a null"))
		case *s == "":
			f.fail(Invalid("stop", "stop has an empty string, which would end every answer at once"))
		case len(*s) > MaxStopBytes:
			f.fail(Invalid("stop", "stop has a string of %d bytes; at most %d are allowed", len(*s), MaxStopBytes))
		default:
			stops = append(stops, *s)
		}
	}
	return stops
}
