package apple

import (
	"fmt"
	"strings"
	"unsafe"
)

// objc is the Objective-C runtime with what else the driver needs of the system. It is one thread's: see words.
type objc struct {
	selectors [selectorCount]uintptr
	classes   [classCount]uintptr // 0 for one that this macOS lacks
	// message sends a message: receiver, selector, arguments, all of the integer class, which include NSRange as two words
	// and larger structs as pointers. It returns the first result register and keeps nothing of words.
	message func(words []uintptr) uintptr
	// double sends a message without arguments whose result is a double.
	double func(receiver, selector uintptr) float64
	// call calls a C function with arguments of the integer class.
	call func(f function, words []uintptr) uintptr
	// version and build are those of macOS, such as "15.1" and "24B83".
	version, build string

	words [8]uintptr // of the message being sent, so that sending allocates nothing
	fault uintptr    // where methods leave an NSError: here, since a local variable may move with its stack
}

// send sends a message. Arguments that point to Go memory must point into objects that live on the heap and stay alive.
func (r *objc) send(receiver uintptr, s selector, arguments ...uintptr) uintptr {
	r.words[0], r.words[1] = receiver, r.selectors[s]
	n := 2 + copy(r.words[2:], arguments)
	return r.message(r.words[:n])
}

// sendPointers is send for arguments that are pointers to Go memory converted in the call itself: they stay valid during
// the call, which costs an allocation.
//
//go:uintptrescapes
func (r *objc) sendPointers(receiver uintptr, s selector, arguments ...uintptr) uintptr {
	return r.send(receiver, s, arguments...)
}

// invoke calls a C function.
//
//go:uintptrescapes
func (r *objc) invoke(f function, arguments ...uintptr) uintptr {
	n := copy(r.words[:], arguments)
	return r.call(f, r.words[:n])
}

// pool opens an autorelease pool; drain closes it and frees what was put in since. Pools nest.
func (r *objc) pool() uintptr { return r.call(fnPoolPush, nil) }

func (r *objc) drain(pool uintptr) {
	r.words[0] = pool
	r.call(fnPoolPop, r.words[:1])
}

func (r *objc) retain(object uintptr) uintptr { return r.send(object, selRetain) }

func (r *objc) release(object uintptr) {
	if object != 0 {
		r.send(object, selRelease)
	}
}

// responds tells whether an object has a method. Of a BOOL only the low byte is defined.
func (r *objc) responds(object uintptr, s selector) bool {
	return isTrue(r.send(object, selRespondsToSelector, r.selectors[s]))
}

func isTrue(word uintptr) bool { return word&0xff != 0 }

const utf8 = 4 // NSUTF8StringEncoding

// newString makes an NSString that the caller releases.
func (r *objc) newString(s string) uintptr {
	b := append([]byte(s), 0) // never empty, so that it has an address
	object := r.send(r.classes[classString], selAlloc)
	return r.sendPointers(object, selInitWithBytes, uintptr(unsafe.Pointer(&b[0])), uintptr(len(s)), utf8)
}

// text copies an NSString.
func (r *objc) text(object uintptr) string {
	if object == 0 {
		return ""
	}
	n := r.send(object, selLengthOfBytes, utf8)
	at := r.send(object, selUTF8String)
	if n == 0 || at == 0 {
		return ""
	}
	return strings.Clone(unsafe.String((*byte)(pointer(at)), int(n)))
}

// pointer is the address that a message returned, of memory that isn't Go's.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// try sends a message whose last argument is the address of an NSError *, and returns its result and that error, which is
// borrowed.
func (r *objc) try(receiver uintptr, s selector, arguments ...uintptr) (result, err uintptr) {
	r.fault = 0
	r.words[0], r.words[1] = receiver, r.selectors[s]
	n := 2 + copy(r.words[2:], arguments)
	r.words[n] = uintptr(unsafe.Pointer(&r.fault))
	result = r.message(r.words[:n+1])
	return result, r.fault
}

// knows checks that an object has every method that the table gives its class or protocol. What an object lacks throws,
// which ends the process; this names it instead.
func (r *objc) knows(object uintptr, class string) error {
	for i, s := range selectors {
		if s.class == class && s.since <= floor && !r.responds(object, selector(i)) {
			return fmt.Errorf("macOS %s (%s) has a %s without %s", r.version, r.build, class, s.name)
		}
	}
	return nil
}

// describe is an NSError's text.
func (r *objc) describe(err uintptr) string {
	if s := r.text(r.send(err, selLocalizedDescription)); s != "" {
		return s
	}
	return "Metal gives no reason"
}
