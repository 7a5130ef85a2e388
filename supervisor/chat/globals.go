package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// globals are the functions that transformers and Jinja2 give to a template.
func globals(now func() time.Time) map[string]any {
	return map[string]any{
		noneName:   none,
		callName:   callMethod,
		itemName:   item,
		factorName: factor,
		"raise_exception": func(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
			panic(failure{message: arguments{args}.mustText(0, "message"), raised: true})
		},
		"strftime_now": func(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
			return exec.AsValue(strftime(now(), arguments{args}.mustText(0, "format")))
		},
		"namespace": namespace,
		"dict":      namespace,
		"range":     rangeList,
	}
}

// callMethod is x.name(...) for methods of Python's str, dict and list, and for functions that are members of x.
func callMethod(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	self, name := args.Args[0], args.Args[1].String()
	rest := &exec.VarArgs{Args: args.Args[2:], KwArgs: args.KwArgs}
	var methods map[string]method
	switch {
	case self.IsString():
		methods = stringMethods
	case self.IsDict():
		methods = dictMethods
	case isList(self):
		methods = listMethods
	}
	if call, ok := methods[name]; ok {
		return exec.ToValue(call(self, arguments{rest}))
	}
	if !isUndefined(self) {
		switch member, _ := self.Get(name); call := member.Interface().(type) {
		case func(*exec.VarArgs) *exec.Value: // loop.cycle and the like
			return call(rest)
		case exec.Macro:
			return call(rest)
		}
	}
	fail("the chat template calls %s of %s, which is not supported", name, kindOf(self))
	return nil
}

// factor refuses to repeat a string, which could be of any size.
func factor(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	if !args.Args[0].IsNumber() && !args.Args[0].IsBool() {
		fail("the chat template multiplies %s, which is not supported", kindOf(args.Args[0]))
	}
	return args.Args[0]
}

// item is x[key]: a character, an element or a member; undefined if there is none.
func item(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	self, key := args.Args[0], args.Args[1]
	switch {
	case isUndefined(self):
		fail("the chat template takes an item of an undefined value")
	case key.IsString():
		value, ok := self.GetItem(key.String())
		if !ok && !self.IsDict() {
			value, ok = self.GetAttribute(key.String())
		}
		if ok {
			return value
		}
	case key.IsInteger() && (self.IsString() || isList(self)):
		i, n := key.Integer(), self.Len()
		if i < 0 {
			i += n
		}
		if 0 <= i && i < n {
			return self.Index(i)
		}
	}
	return exec.AsValue(nil)
}

func namespace(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	members := map[string]any{}
	for name, value := range args.KwArgs {
		members[name] = value
	}
	return exec.AsValue(members)
}

func rangeList(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	a := arguments{args}
	start, stop, step := 0, a.number(0, "stop", 0), a.number(2, "step", 1)
	if len(args.Args) > 1 {
		start, stop = stop, a.number(1, "stop", 0)
	}
	if step == 0 {
		fail("the chat template has a range with step 0")
	}
	list := []any{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(list) == maxRange {
			fail("the chat template has a range of more than %d numbers", maxRange)
		}
		list = append(list, i)
	}
	return exec.AsValue(list)
}

// strftimeLayouts maps the directives of Python's strftime that chat templates use to Go's layouts.
var strftimeLayouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700", 'j': "002",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06",
}

// strftime prints t as Python does. An unknown directive ends the rendering.
func strftime(t time.Time, format string) string {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		switch layout, known := strftimeLayouts[format[i]]; {
		case format[i] == '%':
			out.WriteByte('%')
		case format[i] == '-' && i+1 < len(format) && format[i+1] == 'd':
			i++
			out.WriteString(fmt.Sprint(t.Day()))
		case known:
			out.WriteString(t.Format(layout))
		default:
			fail("the chat template prints a time with %%%c, which is not supported", format[i])
		}
	}
	return out.String()
}
