package generate

import "strings"

// stops finds stop strings in text that comes in pieces. The stop string that is complete first counts, of those that end
// at the same place the longest, so the cut of the text into pieces changes nothing.
type stops struct {
	list []string
	held string // the longest end of the text so far that could begin a stop string
}

// push returns the text that can go out, and whether a stop string ended the text there.
func (s *stops) push(text string) (out string, hit bool) {
	if len(s.list) == 0 {
		return text, false
	}
	text = s.held + text
	s.held = ""
	start, end := -1, len(text)+1
	for _, stop := range s.list {
		if at := strings.Index(text, stop); at >= 0 && (at+len(stop) < end || at+len(stop) == end && at < start) {
			start, end = at, at+len(stop)
		}
	}
	if start >= 0 {
		return text[:start], true
	}
	keep := s.candidate(text)
	s.held = strings.Clone(text[len(text)-keep:])
	return text[:len(text)-keep], false
}

// candidate is the length of the longest end of text that begins a stop string.
func (s *stops) candidate(text string) (longest int) {
	for _, stop := range s.list {
		for n := min(len(stop)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// flush returns what was held back when no more text comes.
func (s *stops) flush() string {
	held := s.held
	s.held = ""
	return held
}
