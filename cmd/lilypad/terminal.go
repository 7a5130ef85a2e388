package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// isTerminal is true when w is a screen that understands escape sequences.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// prompt reads lines: with editing and history from a terminal, plainly from anything else.
type prompt struct {
	out   io.Writer
	lines *bufio.Reader  // not a terminal
	tty   *term.Terminal // terminal
	fd    int
}

func newPrompt(e *env) *prompt {
	in, ok := e.stdin.(*os.File)
	if !ok || !isTerminal(in) || !isTerminal(e.stdout) {
		return &prompt{out: e.stdout, lines: bufio.NewReader(e.stdin)}
	}
	screen := struct {
		io.Reader
		io.Writer
	}{in, e.stdout}
	return &prompt{out: e.stdout, tty: term.NewTerminal(screen, ""), fd: int(in.Fd())}
}

// read returns the next line without its newline, and io.EOF at the end. The terminal is in raw mode only while it reads, so
// that Ctrl-C reaches the program as a signal during an answer.
func (p *prompt) read(label string) (string, error) {
	if p.tty == nil {
		line, err := p.lines.ReadString('\n')
		if err == io.EOF && line != "" {
			err = nil
		}
		return strings.TrimRight(line, "\r\n"), err
	}
	old, err := term.MakeRaw(p.fd)
	if err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	defer term.Restore(p.fd, old)
	if width, height, err := term.GetSize(p.fd); err == nil && width > 0 {
		if err := p.tty.SetSize(width, height); err != nil {
			return "", fmt.Errorf("terminal: %w", err)
		}
	}
	p.tty.SetPrompt(label)
	line, err := p.tty.ReadLine()
	if err == term.ErrPasteIndicator {
		err = nil
	}
	return line, err
}

// answerWriter prints an answer as it arrives: reasoning dimmed and only on a terminal, then the content.
type answerWriter struct {
	out      io.Writer
	dim      bool
	thinking bool
	text     strings.Builder // content so far
}

const (
	dimOn  = "\x1b[2m"
	dimOff = "\x1b[0m"
)

// reasoning takes the raw JSON of a reasoning_content delta.
func (w *answerWriter) reasoning(raw string) {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil || text == "" || !w.dim {
		return
	}
	if !w.thinking {
		w.thinking = true
		fmt.Fprint(w.out, dimOn)
	}
	fmt.Fprint(w.out, text)
}

func (w *answerWriter) content(text string) {
	if text == "" {
		return
	}
	w.stopThinking()
	w.text.WriteString(text)
	fmt.Fprint(w.out, text)
}

func (w *answerWriter) stopThinking() {
	if w.thinking {
		w.thinking = false
		fmt.Fprint(w.out, dimOff+"\n\n")
	}
}

func (w *answerWriter) end() {
	w.stopThinking()
	if !strings.HasSuffix(w.text.String(), "\n") {
		fmt.Fprintln(w.out)
	}
}
