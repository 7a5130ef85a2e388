package generate

import "sync"

// news is the one Update that waits for the reader. As text is merged, it is bounded by the answer itself, and putting
// never blocks.
type news struct {
	wake chan struct{} // has an element when there is something to take

	mu        sync.Mutex
	begin     *Begin
	reasoning []byte
	content   []byte
	phase     Phase
	progress  bool // the worker did something since the last sign of life
}

func newNews() *news { return &news{wake: make(chan struct{}, 1), phase: Queued} }

// put merges text and wakes the reader.
func (n *news) put(begin *Begin, reasoning, content string) {
	if begin == nil && reasoning == "" && content == "" {
		return
	}
	n.mu.Lock()
	if begin != nil {
		n.begin = begin
	}
	n.reasoning = append(n.reasoning, reasoning...)
	n.content = append(n.content, content...)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// moved notes progress in a phase.
func (n *news) moved(phase Phase) {
	n.mu.Lock()
	n.phase, n.progress = phase, true
	n.mu.Unlock()
}

// enter notes a phase in which nothing has moved yet.
func (n *news) enter(phase Phase) {
	n.mu.Lock()
	n.phase = phase
	n.mu.Unlock()
}

// take returns what waits.
func (n *news) take() Update {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := Update{Begin: n.begin, Reasoning: string(n.reasoning), Content: string(n.content), Phase: n.phase}
	n.begin, n.reasoning, n.content = nil, n.reasoning[:0], n.content[:0]
	if u.Begin != nil || u.Reasoning != "" || u.Content != "" {
		n.progress = false
	}
	return u
}

// alive tells whether a sign of life is honest: something moved since the last one, or the generation waits for its turn
// or for the next worker, which have limits of their own.
func (n *news) alive() (Phase, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	alive := n.progress || n.phase == Queued || n.phase == Recovering
	n.progress = false
	return n.phase, alive
}
