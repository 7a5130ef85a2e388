package apple

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"lilypad/metal"
)

// world stands in for the Objective-C runtime and Metal. It follows every object from its making to its last release,
// and complains about what would crash, leak or hang on a Mac.
type world struct {
	t       *testing.T
	objects map[uintptr]*object
	next    uintptr
	pools   [][]uintptr // autoreleased objects of the open pools
	thread  uintptr
	sent    []string   // messages that matter for order, see note
	fail    string     // selector or function that returns nothing
	failure *[3]string // error of the next command buffer: text, domain, code
	lacks   string     // selector that no object has
	old     bool       // macOS 14: no residency sets, no math modes
	garbage bool       // methods overwrite the structs that they get by pointer, as they may
	family  uintptr    // highest supported, 1009 for Apple9
}

type object struct {
	class string
	refs  int
	text  string // of strings, errors and names
	data  []byte
	ended bool // encoders; committed for command buffers
	list  []uintptr
	value uint64
}

func newWorld(t *testing.T) *world {
	return &world{t: t, objects: map[uintptr]*object{}, next: 0x1000, thread: 7, family: 1009}
}

// runtime is what the driver gets.
func (w *world) runtime() *objc {
	r := &objc{version: "15.1", build: "24B83", call: w.call, message: w.message}
	if w.old {
		r.version, r.build = "14.6", "23G80"
	}
	for i := range r.selectors {
		r.selectors[i] = uintptr(i + 1)
	}
	for i, c := range classes {
		if !w.old || c.since <= floor {
			r.classes[i] = w.make("class " + c.name)
		}
	}
	r.double = func(receiver, s uintptr) float64 {
		w.object(receiver)
		return map[string]float64{"GPUStartTime": 1.5, "GPUEndTime": 2.5}[selectors[s-1].name]
	}
	return r
}

func (w *world) make(class string) uintptr {
	w.next += 16
	w.objects[w.next] = &object{class: class, refs: 1}
	return w.next
}

func (w *world) borrowed(class string) uintptr {
	o := w.make(class)
	if len(w.pools) == 0 {
		w.t.Errorf("%s is autoreleased without a pool: it leaks", class)
		return o
	}
	last := len(w.pools) - 1
	w.pools[last] = append(w.pools[last], o)
	return o
}

func (w *world) object(id uintptr) *object {
	w.t.Helper()
	o := w.objects[id]
	if o == nil {
		w.t.Fatalf("message to %#x, which is freed or never was", id)
	}
	return o
}

func (w *world) release(id uintptr) {
	o := w.object(id)
	if o.refs--; o.refs > 0 {
		return
	}
	if o.class == "MTLComputeCommandEncoder" && !o.ended && w.lacks != "endEncoding" {
		w.t.Error("an encoder is freed before endEncoding: Metal aborts")
	}
	delete(w.objects, id)
}

// alive lists what is not freed, classes excepted.
func (w *world) alive() []string {
	var list []string
	for _, o := range w.objects {
		if !strings.HasPrefix(o.class, "class ") {
			list = append(list, fmt.Sprintf("%s (%d)", o.class, o.refs))
		}
	}
	slices.Sort(list)
	return list
}

func (w *world) call(f function, a []uintptr) uintptr {
	name := functions[f].name
	if len(a) != functions[f].arguments {
		w.t.Errorf("%s called with %d arguments, want %d", name, len(a), functions[f].arguments)
	}
	if name == w.fail {
		return 0
	}
	switch f {
	case fnPoolPush:
		w.pools = append(w.pools, nil)
		return uintptr(len(w.pools))
	case fnPoolPop:
		if a[0] != uintptr(len(w.pools)) {
			w.t.Fatalf("pool %d is drained, but %d are open", a[0], len(w.pools))
		}
		for _, o := range w.pools[a[0]-1] {
			w.release(o)
		}
		w.pools = w.pools[:a[0]-1]
	case fnThread:
		return w.thread
	case fnCopyAllDevices:
		list := w.make("NSArray")
		if w.fail != "count" {
			w.object(list).list = []uintptr{w.borrowed("MTLDevice")}
		}
		return list
	case fnDefaultDevice:
		return w.make("MTLDevice")
	case fnServiceMatching:
		if name := cString(a[0]); name != "AGXAccelerator" {
			w.t.Errorf("matching services named %q", name)
		}
		return w.make("CFDictionary")
	case fnMatchingService:
		w.release(a[1])
		return w.make("service")
	case fnCreateProperty:
		if name := w.object(a[1]).text; name != "gpu-core-count" {
			w.t.Errorf("property %q", name)
		}
		number := w.make("NSNumber")
		w.object(number).value = 40
		return number
	case fnReleaseService:
		w.release(a[0])
	}
	return 0
}

func cString(at uintptr) string {
	var b []byte
	for ; bytesAt(at, 1)[0] != 0; at++ {
		b = append(b, bytesAt(at, 1)[0])
	}
	return string(b)
}

// message checks receiver and arguments, then answers.
func (w *world) message(words []uintptr) uintptr {
	if words[0] == 0 {
		return 0
	}
	s := selector(words[1] - 1)
	row := selectors[s]
	a := words[2:]
	want := row.arguments
	if s == selSetBuffers {
		want++ // NSRange
	}
	if len(a) != want {
		w.t.Errorf("%s sent with %d words, want %d", row.name, len(a), want)
	}
	o := w.object(words[0])
	if !w.understands(o, s) {
		w.t.Fatalf("%s does not understand %s", o.class, row.name)
	}
	if row.name == w.fail {
		if n := len(a); strings.HasSuffix(row.name, "error:") {
			*(*uintptr)(pointer(a[n-1])) = w.fault("it was told to fail", "FakeDomain", 1)
		}
		return 0
	}
	return w.answer(o, words[0], s, a)
}

func (w *world) understands(o *object, s selector) bool {
	row := selectors[s]
	if row.name == w.lacks || w.old && row.since > floor {
		return false
	}
	switch row.class {
	case "NSObject":
		return true
	case "MTLCommandEncoder":
		return o.class == "MTLComputeCommandEncoder"
	}
	return o.class == row.class
}

func (w *world) fault(text, domain string, code int) uintptr {
	o := w.borrowed("NSError")
	w.object(o).text, w.object(o).value = text, uint64(code)
	d := w.borrowed("NSString")
	w.object(d).text = domain
	w.object(o).list = []uintptr{d}
	return o
}

func (w *world) string(text string) uintptr {
	o := w.borrowed("NSString")
	w.object(o).text = text
	return o
}

func (w *world) note(format string, a ...any) { w.sent = append(w.sent, fmt.Sprintf(format, a...)) }

func size(at uintptr) *metal.Size { return (*metal.Size)(pointer(at)) }

func bytesAt(at, n uintptr) []byte { return unsafe.Slice((*byte)(pointer(at)), n) }
