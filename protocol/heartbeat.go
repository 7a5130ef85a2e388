package protocol

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"
)

// File descriptors that the supervisor hands to the worker.
const (
	LifelineFD  = 3 // read end of a pipe: end of file means that the supervisor is gone
	HeartbeatFD = 4 // the heartbeat page, a file to map
)

// Phase is what the worker's compute thread is doing.
type Phase uint32

// The phases of a heartbeat.
const (
	PhaseStart Phase = iota
	PhaseLoad
	PhaseIdle
	PhasePrefill
	PhaseDecode
	PhaseUnload
)

// String names the phase in logs and status answers.
func (p Phase) String() string {
	names := [...]string{"start", "load", "idle", "prefill", "decode", "unload"}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("phase %d", uint32(p))
}

// Beat is one reading of the heartbeat page.
type Beat struct {
	Phase   Phase
	Layer   int       // layer being computed
	Step    uint64    // counts every piece of progress: bytes loaded, layers, chunks and tokens computed
	Bytes   int64     // memory allocated for weights and states
	Request string    // GenerateRequest.ID being computed, at most 63 bytes
	At      time.Time // of the last Begin or Progress, by the worker's clock
}

const (
	pageMagic   = 0x7461656264617079 // "ypadbeat" in little-endian bytes
	pageVersion = 1
	pageSize    = 4096
	requestMax  = 63
)

// page is the layout of the mapped file. Both processes are the same binary, so it needs no byte order. Every field is
// written by the worker's compute thread alone, except that the supervisor writes the first two before the worker starts.
type page struct {
	magic   uint64
	version uint64
	step    atomic.Uint64
	at      atomic.Int64 // Unix nanoseconds
	layer   atomic.Int64
	bytes   atomic.Int64
	turn    atomic.Uint64 // counts calls of Begin; slots[turn%2] is the current one
	slots   [2]slot
}

// slot says what is computed for whom. Begin fills the slot that is not current and then turns: a reader that sees the
// same turn before and after copying has a whole copy, and a worker that dies inside Begin leaves the old slot valid.
type slot struct {
	phase   atomic.Uint64
	request [(requestMax + 1) / 8]atomic.Uint64 // one length byte, then the id
}

// Heartbeat is the page in which the worker says what it is doing. The supervisor reads it also after the worker's death.
// One goroutine at a time may write; reading is free. All writers do nothing on a nil *Heartbeat.
type Heartbeat struct {
	page  *page
	unmap func() error
	start time.Time // At is counted from here, since the monotonic clock alone is the cheapest to read
	wall  int64
}

// NewHeartbeat makes the page on the supervisor's side, in a file in dir that has no name any more (an empty dir is the
// system's temporary folder). The file goes to the worker as HeartbeatFD; closing it leaves the mapping alone.
func NewHeartbeat(dir string) (*Heartbeat, *os.File, error) {
	f, err := os.CreateTemp(dir, "heartbeat")
	if err != nil {
		return nil, nil, fmt.Errorf("heartbeat page: %w", err)
	}
	os.Remove(f.Name())
	// Writing real zeros reserves the blocks: a store to a page of a sparse file on a full disk would be a SIGBUS.
	if _, err := f.Write(make([]byte, pageSize)); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("heartbeat page: %w", err)
	}
	h, err := mapHeartbeat(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	h.page.magic, h.page.version = pageMagic, pageVersion
	h.page.at.Store(h.wall)
	return h, f, nil
}

// OpenHeartbeat maps the page in the worker. The file may be closed afterwards. A file that is no heartbeat page of this
// version is an error.
func OpenHeartbeat(f *os.File) (*Heartbeat, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("heartbeat page: %w", err)
	}
	if !st.Mode().IsRegular() || st.Size() != pageSize {
		return nil, fmt.Errorf("heartbeat page: %s of %d bytes, want a file of %d", st.Mode().Type(), st.Size(), pageSize)
	}
	h, err := mapHeartbeat(f)
	if err != nil {
		return nil, err
	}
	if h.page.magic != pageMagic || h.page.version != pageVersion {
		magic, version := h.page.magic, h.page.version
		h.Close()
		return nil, fmt.Errorf("heartbeat page: magic %#x version %d, want %#x version %d", magic, version, uint64(pageMagic), pageVersion)
	}
	return h, nil
}

func mapHeartbeat(f *os.File) (*Heartbeat, error) {
	b, unmap, err := mapPage(f, pageSize)
	if err != nil {
		return nil, fmt.Errorf("map heartbeat page: %w", err)
	}
	now := time.Now()
	return &Heartbeat{page: (*page)(unsafe.Pointer(&b[0])), unmap: unmap, start: now, wall: now.UnixNano()}, nil
}

// Begin says that the compute thread turns to a phase of a request (empty for none). Ids over 63 bytes are cut.
func (h *Heartbeat) Begin(phase Phase, request string) {
	if h == nil {
		return
	}
	p := h.page
	next := p.turn.Load() + 1
	s := &p.slots[next%2]
	s.phase.Store(uint64(phase))
	var text [requestMax + 1]byte
	text[0] = byte(copy(text[1:], request))
	for i := range s.request {
		s.request[i].Store(binary.NativeEndian.Uint64(text[i*8:]))
	}
	p.turn.Store(next)
	p.layer.Store(0)
	h.Progress()
}

// Layer says that layer n is being computed; it counts as progress. It is called for each layer of each token and so
// leaves the clock alone.
func (h *Heartbeat) Layer(n int) {
	if h == nil {
		return
	}
	h.page.layer.Store(int64(n))
	h.page.step.Store(h.page.step.Load() + 1)
}

// Progress counts one piece of progress.
func (h *Heartbeat) Progress() {
	if h == nil {
		return
	}
	h.page.step.Store(h.page.step.Load() + 1)
	h.page.at.Store(h.wall + int64(time.Since(h.start)))
}

// SetBytes says how much memory weights and states take. It does not count as progress.
func (h *Heartbeat) SetBytes(n int64) {
	if h == nil {
		return
	}
	h.page.bytes.Store(n)
}

// Read returns what the worker wrote last. Phase and Request always belong together.
func (h *Heartbeat) Read() Beat {
	if h == nil {
		return Beat{}
	}
	p := h.page
	var phase uint64
	var text [requestMax + 1]byte
	for {
		turn := p.turn.Load()
		s := &p.slots[turn%2]
		phase = s.phase.Load()
		for i := range s.request {
			binary.NativeEndian.PutUint64(text[i*8:], s.request[i].Load())
		}
		if p.turn.Load() == turn {
			break
		}
	}
	return Beat{
		Phase: Phase(phase), Layer: int(p.layer.Load()), Step: p.step.Load(), Bytes: p.bytes.Load(),
		Request: string(text[1 : 1+min(int(text[0]), requestMax)]), At: time.Unix(0, p.at.Load()),
	}
}

// Close unmaps the page; nothing may use it afterwards. It is safe to call twice.
func (h *Heartbeat) Close() error {
	if h == nil || h.unmap == nil {
		return nil
	}
	unmap := h.unmap
	h.unmap, h.page = nil, nil
	return unmap()
}
