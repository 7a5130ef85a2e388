package apple

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"lilypad/metal"
)

// answer does what a method of Metal or Foundation does, as far as the driver can see it.
func (w *world) answer(o *object, id uintptr, s selector, a []uintptr) uintptr {
	if result, done := w.answerObject(o, id, s, a); done {
		return result
	}
	if result, done := w.answerDevice(o, s, a); done {
		return result
	}
	return w.answerPass(o, s, a)
}

func (w *world) answerObject(o *object, id uintptr, s selector, a []uintptr) (uintptr, bool) {
	switch s {
	case selAlloc, selNew:
		return w.make(strings.TrimPrefix(o.class, "class ")), true
	case selRetain:
		o.refs++
		return id, true
	case selRelease:
		w.release(id)
		return 0, true
	case selRespondsToSelector:
		// The upper bytes of a BOOL's register are undefined.
		if w.understands(o, selector(a[0]-1)) {
			return 0xff01, true
		}
		return 0xff00, true
	case selInitWithBytes:
		o.text = string(bytesAt(a[0], a[1]))
		return id, true
	case selUTF8String:
		b := append([]byte(o.text), 0)
		o.data = b // keeps it alive
		return uintptr(unsafe.Pointer(&b[0])), true
	case selLengthOfBytes:
		return uintptr(len(o.text)), true
	case selCount:
		return uintptr(len(o.list)), true
	case selObjectAtIndex:
		return o.list[a[0]], true
	case selLongLongValue, selCode, selSignaledValue:
		return uintptr(o.value), true
	case selDomain:
		return o.list[0], true
	case selLocalizedDescription:
		return w.string(o.text), true
	}
	return 0, false
}

func (w *world) answerDevice(o *object, s selector, a []uintptr) (uintptr, bool) {
	switch s {
	case selName:
		return w.string("Apple M9"), true
	case selSupportsFamily:
		if a[0] <= w.family {
			return 1, true
		}
		return 0xff00, true
	case selHasUnifiedMemory:
		return 1, true
	case selMaxBufferLength:
		return 1 << 22, true
	case selRecommendedMaxWorkingSetSize:
		return 1 << 23, true
	case selNewCommandQueue:
		return w.make("MTLCommandQueue"), true
	case selNewFence:
		return w.make("MTLFence"), true
	case selNewSharedEvent:
		return w.make("MTLSharedEvent"), true
	case selNewResidencySet:
		return w.make("MTLResidencySet"), true
	case selNewBuffer:
		return w.newBuffer(make([]byte, a[0]), a[1]), true
	case selNewBufferNoCopy:
		return w.newBuffer(bytesAt(a[0], a[1]), a[2]), true
	case selNewLibrary:
		l := w.make("MTLLibrary")
		w.object(l).text = w.object(a[0]).text
		w.note("compile %s", w.object(a[1]).text)
		return l, true
	case selNewFunction:
		w.note("function %s%s", w.object(a[0]).text, w.object(a[1]).text)
		return w.make("MTLFunction"), true
	case selNewPipeline:
		return w.make("MTLComputePipelineState"), true
	case selMaxTotalThreads:
		return 832, true
	case selStaticThreadgroupMemory:
		return 4096, true
	case selThreadExecutionWidth:
		return 32, true
	case selSetLanguageVersion:
		o.text += " version " + strconv.Itoa(int(a[0]))
	case selSetFastMathEnabled:
		o.text += " fast " + strconv.Itoa(int(a[0]))
	case selSetMathMode:
		o.text += " mode " + strconv.Itoa(int(a[0]))
	case selSetMathFloatingPointFunctions:
		o.text += " functions " + strconv.Itoa(int(a[0]))
	case selSetConstantValue:
		o.text += " " + strconv.Itoa(int(a[2])) + ":" + strconv.Itoa(int(a[1])) + "=" +
			strconv.FormatUint(uint64(*(*uint32)(pointer(a[0]))), 16)
	case selContents:
		return uintptr(unsafe.Pointer(&o.data[0])), true
	case selAddResidencySet:
		w.note("set joins the queue")
	case selAddAllocation:
		o.list = append(o.list, a[0])
	case selRemoveAllocation:
		i := slices.Index(o.list, a[0])
		if i < 0 {
			w.t.Error("a buffer leaves a residency set that it is not in")
			return 0, true
		}
		o.list = slices.Delete(o.list, i, i+1)
	case selCommitSet:
		w.note("set of %d", len(o.list))
	case selRequestResidency:
		w.note("resident")
	default:
		return 0, false
	}
	return 0, true
}

func (w *world) newBuffer(memory []byte, options uintptr) uintptr {
	if options != 0x100 {
		w.t.Errorf("a buffer with options %#x, want shared and untracked", options)
	}
	b := w.make("MTLBuffer")
	w.object(b).data = memory
	return b
}

func (w *world) answerPass(o *object, s selector, a []uintptr) uintptr {
	if selectors[s].class == "MTLComputeCommandEncoder" && o.ended {
		w.t.Errorf("%s after endEncoding", selectors[s].name)
	}
	switch s {
	case selCommandBuffer:
		w.note("command buffer")
		return w.borrowed("MTLCommandBuffer")
	case selComputeEncoder:
		w.note("encoder %d", a[0])
		return w.borrowed("MTLComputeCommandEncoder")
	case selEncodeSignalEvent:
		w.note("signal %d", a[1])
		w.object(a[0]).value = uint64(a[1])
	case selCommit:
		o.ended = true
		w.note("commit")
	case selWaitUntilCompleted:
		if !o.ended {
			w.t.Error("waiting for a command buffer that was not committed: it hangs")
		}
		w.note("wait")
	case selStatus:
		if w.failure != nil {
			return 5
		}
		return 4
	case selError:
		if w.failure == nil || w.failure[0] == "" {
			return 0
		}
		code, _ := strconv.Atoi(w.failure[2])
		return w.fault(w.failure[0], w.failure[1], code)
	case selWaitForFence:
		w.note("wait for fence")
	case selUpdateFence:
		w.note("update fence")
	case selEndEncoding:
		o.ended = true
		w.note("end")
	case selSetPipeline:
		w.note("pipeline")
	case selSetBuffers:
		w.noteBuffers(a)
	case selSetBytes:
		w.note("bytes %q at %d", bytesAt(a[0], a[1]), a[2])
	case selDispatchThreadgroups:
		w.note("dispatch %v of %v", *size(a[0]), *size(a[1]))
		if w.garbage {
			*size(a[0]), *size(a[1]) = metal.Size{X: -1}, metal.Size{X: -1}
		}
	case selMemoryBarrier:
		w.note("barrier %d", a[0])
	case selWaitUntilSignaledValue:
		if o.value >= uint64(a[0]) {
			return 1
		}
		return 0xff00
	default:
		w.t.Fatalf("no answer to %s", selectors[s].name)
	}
	return 0
}

func (w *world) noteBuffers(a []uintptr) {
	if a[2] != 0 {
		w.t.Errorf("buffers are set from index %d on", a[2])
	}
	objects := unsafe.Slice((*uintptr)(pointer(a[0])), a[3])
	for _, b := range objects {
		if class := w.object(b).class; class != "MTLBuffer" {
			w.t.Errorf("a %s is bound as a buffer", class)
		}
	}
	w.note("buffers at %v", unsafe.Slice((*uint)(pointer(a[1])), a[3]))
}
