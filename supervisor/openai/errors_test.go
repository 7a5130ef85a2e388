package openai

import (
	"strings"
	"testing"
)

// TestErrorsRepeatLittle: a message names a bad value without sending all of it back.
func TestErrorsRepeatLittle(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("9", 1_000_000)
	for _, name := range []string{"max_tokens", "temperature", "top_k"} {
		_, bad := ParseChat([]byte(`{"messages":[{"role":"user","content":"hi"}],"` + name + `":` + digits + `}`))
		if bad == nil || len(bad.Message) > 300 {
			t.Errorf("%s of %d digits: %v", name, len(digits), bad != nil)
		}
	}
	if got := Shorten(strings.Repeat("é", 60) + "x"); got != strings.Repeat("é", 50)+"..." {
		t.Errorf("cut to %q", got)
	}
	if got := Shorten("short"); got != "short" {
		t.Errorf("a short value became %q", got)
	}
}
