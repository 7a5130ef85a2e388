package api

import (
	"strings"
	"testing"
)

// TestMoreMessagesThanTokens: messages that can't fit whatever they say are refused before they are rendered.
func TestMoreMessagesThanTokens(t *testing.T) {
	t.Parallel()
	r := &rig{text: "Fine."}
	s := serve(t, r, nil)
	list := strings.Repeat(`{"role":"user","content":""},`, 4096)
	status, body, _ := post(t, s, `{"messages":[`+strings.TrimSuffix(list, ",")+`]}`)
	for _, want := range []string{"context_length_exceeded", "at least 4096 tokens long", `"n_ctx":1024`} {
		if status != 400 || !strings.Contains(body, want) {
			t.Errorf("%d %s: want a 400 with %s", status, body, want)
		}
	}
}
