package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestParseStreams(t *testing.T) {
	for text, want := range map[string][]int{"1": {1}, "1,4": {1, 4}, " 2 , 256 ": {2, 256}, "": nil, "0": nil, "1,": nil, "257": nil, "x": nil} {
		got, err := parseStreams(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestBenchServer(t *testing.T) {
	s := startServer(t)
	var out bytes.Buffer
	if err := benchServer(&out, s.base, []int{1, 3}, benchOptions{decode: 16, rounds: 1, json: true}); err != nil {
		t.Fatal(err)
	}
	var r serverReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Streams) != 2 || r.Streams[0].Streams != 1 || r.Streams[1].Streams != 3 {
		t.Fatalf("streams %+v, want 1 and 3", r.Streams)
	}
	for _, g := range r.Streams {
		if g.First <= 0 || g.Decode <= 0 || g.Total <= 0 {
			t.Errorf("%+v: want positive figures", g)
		}
	}
}

// A server that answers with an error or with nothing ends the measurement with its reason.
func TestBenchServerFails(t *testing.T) {
	for body, want := range map[string]string{
		"data: [DONE]\n\n": "an answer of 0 tokens can't be measured",
		"data: {\"error\":{\"message\":\"no model here\"}}\n\n": "no model here",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(body))
		}))
		err := benchServer(&bytes.Buffer{}, srv.URL, []int{1}, benchOptions{decode: 16, rounds: 1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		srv.Close()
	}
}

// An answer that comes in one piece is as fast as its whole time says, not infinitely fast.
func TestBenchServerAtOnce(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"all\"}}]}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"completion_tokens\":16}}\n\ndata: [DONE]\n\n"))
	}))
	defer srv.Close()
	var out bytes.Buffer
	if err := benchServer(&out, srv.URL, []int{1}, benchOptions{decode: 16, rounds: 2, json: true}); err != nil {
		t.Fatal(err)
	}
	var r serverReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if s := r.Streams[0]; s.Decode <= 0 || s.Decode > 16/(s.First/1000)*1.01 {
		t.Errorf("%+v: want at most 16 tokens in the time of the first", s)
	}
}
