package chat

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parse(t testing.TB, text string) Value {
	t.Helper()
	v, err := ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDumps compares with Python's json; testdata/jinja.py made the cases.
func TestDumps(t *testing.T) {
	data, err := os.ReadFile("testdata/json_dumps.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ JSON, Dumped, ASCII string }
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	indented := jsonStyle{comma: ",", colon: ": ", indent: " ", multiline: true, sortKeys: true, ascii: true}
	for _, c := range cases {
		v := parse(t, c.JSON)
		if got := v.JSON(); got != c.Dumped {
			t.Errorf("%s: %s, want %s", c.JSON, got, c.Dumped)
		}
		if got := string(indented.append(nil, v, 0)); got != c.ASCII {
			t.Errorf("%s: %s, want %s", c.JSON, got, c.ASCII)
		}
	}
}

func TestParseJSON(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"lone high surrogate", `"a\ud83db"`, `"a` + "\uFFFD" + `b"`},
		{"lone low surrogate", `"\ude00"`, `"` + "\uFFFD" + `"`},
		{"two high surrogates", `"\ud83d\ud83d\ude00"`, `"` + "\uFFFD😀" + `"`},
		{"high surrogate before another escape", `"\ud83d\n"`, `"` + "\uFFFD" + `\n"`},
		{"invalid UTF-8", "\"a\xffb\"", `"a` + "\uFFFD" + `b"`},
		{"keeps the order of keys", `{"z":1,"a":2,"m":{"b":1,"a":2}}`, `{"z": 1, "a": 2, "m": {"b": 1, "a": 2}}`},
		{"null", " null ", "null"},
	} {
		if got := parse(t, c.text).JSON(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "ends too early"},
		{"cut string", `"abc`, "ends too early"},
		{"cut escape", `"\u12`, "ends too early"},
		{"bad escape", `"\x"`, "unknown escape"},
		{"bad hex", `"\u12+4"`, "hexadecimal"},
		{"control character", "\"a\nb\"", "control character"},
		{"trailing comma", "[1,]", "not a value"},
		{"leading zero", "01", "text after"},
		{"no digits", "-", "ends too early"},
		{"half a fraction", "1.", "ends too early"},
		{"half an exponent", "1e+", "ends too early"},
		{"NaN", "NaN", "not a value"},
		{"single quotes", "{'a': 1}", "member name"},
		{"two values", "1 2", "text after"},
		{"half a word", "tru", "not a value"},
		{"too deep", strings.Repeat("[", 200), "nested deeper"},
		{"long number", strings.Repeat("9", 5000), "5000 characters"},
	} {
		if _, err := ParseJSON([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestValueWith(t *testing.T) {
	v := parse(t, `{"a": 1, "b": 2}`)
	if got := v.With("a", Null).With("c", String("x")).Without("b").JSON(); got != `{"a": null, "c": "x"}` {
		t.Error(got)
	}
	if got := v.JSON(); got != `{"a": 1, "b": 2}` {
		t.Errorf("the original became %s", got)
	}
}

// FuzzParseJSON holds ParseJSON against encoding/json, which accepts the same texts and reads them alike.
func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"\ud83d\ude00é",null,true]}`, `"\ud800"`, "[", `{"a":1,"a":2}`, "-0", "1e999", "\"\xff\"", "NaN"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseJSON(data)
		if (err == nil) != json.Valid(data) {
			if err != nil && (strings.Contains(err.Error(), "nested deeper") || strings.Contains(err.Error(), "characters, at most")) {
				return
			}
			t.Fatalf("error %v, but valid is %v", err, json.Valid(data))
		}
		if err != nil {
			return
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		decode := func(data []byte, into *any) {
			d := json.NewDecoder(strings.NewReader(string(data)))
			d.UseNumber()
			if err := d.Decode(into); err != nil {
				t.Fatal(err)
			}
		}
		decode(data, &want)
		decode(text, &got)
		wantText, _ := json.Marshal(want)
		gotText, _ := json.Marshal(got)
		if string(wantText) != string(gotText) {
			t.Fatalf("read as %s, want %s", gotText, wantText)
		}
	})
}

func TestStringIsValidUTF8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		text, _ := String(s).Text()
		again, err := ParseJSON(String(s).AppendJSON(nil))
		if got, _ := again.Text(); err != nil || got != text {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
	})
}
