package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// unsupported lists the parameters that clients know and this server can't honour, each with the values that change
// nothing. Order is the order of complaints.
var unsupported = []struct {
	name    string
	neutral func(json.RawMessage) bool
	hint    string // what to do instead
}{
	{"tools", empty, "this server does not call tools yet; calls and results in messages are read"},
	{"tool_choice", oneOf(`"auto"`, `"none"`), "there are no tools to choose from"},
	{"functions", empty, "this server does not call functions"},
	{"function_call", oneOf(`"auto"`, `"none"`), "there are no functions to call"},
	{"n", equals(1), "send one request for each answer"},
	{"best_of", equals(1), "send one request for each answer"},
	{"presence_penalty", equals(0), "leave it out or send 0"},
	{"frequency_penalty", equals(0), "leave it out or send 0"},
	{"repetition_penalty", equals(1), "leave it out or send 1"},
	{"logprobs", oneOf("false"), "leave it out or send false"},
	{"top_logprobs", equals(0), "leave it out or send 0"},
	{"logit_bias", empty, "leave it out or send {}"},
	{"response_format", plainText, `only {"type": "text"} is possible`},
	{"reasoning_effort", oneOf(`"medium"`), `use chat_template_kwargs: {"enable_thinking": false} to switch thinking off`},
	{"verbosity", oneOf(`"medium"`), "leave it out"},
	{"modalities", oneOf(`["text"]`, "[]"), "this model writes text only"},
	{"audio", never, "this model writes text only"},
	{"prediction", never, "leave it out"},
	{"web_search_options", never, "this server does not search the web"},
	{"grammar", oneOf(`""`), "leave it out"},
	{"guided_json", never, "leave it out"},
	{"guided_regex", never, "leave it out"},
	{"guided_grammar", never, "leave it out"},
	{"min_tokens", equals(0), "leave it out or send 0"},
	{"ignore_eos", oneOf("false"), "leave it out or send false"},
	{"stop_token_ids", empty, "use stop, which takes strings"},
}

// refuseUnsupported complains about the first parameter whose value would change the answer if it were honoured.
func refuseUnsupported(top map[string]json.RawMessage) *Error {
	for _, p := range unsupported {
		if value, sent := top[p.name]; sent && !p.neutral(value) {
			return Unsupported(p.name, "%s is not supported with this value: %s", p.name, p.hint)
		}
	}
	return nil
}

func never(json.RawMessage) bool { return false }

// compact drops insignificant space.
func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return ""
	}
	return b.String()
}

func empty(value json.RawMessage) bool {
	return slices.Contains([]string{"[]", "{}"}, compact(value))
}

func oneOf(values ...string) func(json.RawMessage) bool {
	return func(value json.RawMessage) bool { return slices.Contains(values, compact(value)) }
}

func equals(want float64) func(json.RawMessage) bool {
	return func(value json.RawMessage) bool {
		x, err := strconv.ParseFloat(string(value), 64)
		return err == nil && x == want
	}
}

func plainText(value json.RawMessage) bool {
	var format struct{ Type string }
	return json.Unmarshal(value, &format) == nil && format.Type == "text"
}
