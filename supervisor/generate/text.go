package generate

import (
	"lilypad/protocol"
	"lilypad/supervisor/chat"
)

// text turns tokens into reasoning and content. It lives as long as the generation, so nothing of it is lost with a worker.
type text struct {
	split *chat.Split
	stops stops
	bytes int // of text that the tokens gave so far
}

// push takes one token. hit tells that a stop string ended the generation.
func (t *text) push(tok protocol.Token) (reasoning, content string, hit bool) {
	t.bytes += len(tok.Text)
	return t.sort(t.split.Push(tok))
}

// end takes the text that the detokeniser held back, and releases all that was held back here.
func (t *text) end(tail string) (reasoning, content string, hit bool) {
	reasoning, content, hit = t.sort(t.split.Flush(tail))
	if !hit {
		content += t.stops.flush()
	}
	return reasoning, content, hit
}

// sort puts pieces together and looks for stop strings in content.
func (t *text) sort(pieces []chat.Piece) (reasoning, content string, hit bool) {
	for _, p := range pieces {
		if p.Reasoning {
			reasoning += p.Text
			continue
		}
		var out string
		out, hit = t.stops.push(p.Text)
		content += out
		if hit {
			break
		}
	}
	return reasoning, content, hit
}
