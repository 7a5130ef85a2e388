package sim

import (
	"strings"
	"testing"

	"lilypad/metal"
)

// kernelPTX is what the compiler makes of two kernels, in short.
func kernelPTX(body string) string {
	return ".version 7.8\n.target sm_80\n.address_size 64\n\n" +
		".visible .entry first(\n\t.param .u64 first_param_0\n)\n{\n\t.reg .b64 \t%rd<2>;\n\n\tret;\n\n}\n\t// .globl\tsecond\n" +
		".visible .entry second(\n\t.param .u64 second_param_0,\n\t.param .u64 second_param_1\n)\n{\n\t.reg .b64 \t%rd<9>;\n// %bb.0:\n" + body + "\tret;\n\n}\n"
}

func TestPassByValue(t *testing.T) {
	const load = "\tld.param.u64 \t%rd1, [second_param_1];\n"
	for _, c := range []struct {
		name, body string
		size       int
		want       []string
		refused    string
	}{
		{"fields", load + "\tld.global.u32 \t%r1, [%rd1];\n\t@%p1 ld.global.nc.v2.f32 \t{%f1, %f2}, [%rd1+8];\n", 16,
			[]string{"\tld.param.u32 \t%r1, [second_param_1+0];", "@%p1 ld.param.v2.f32 \t{%f1, %f2}, [second_param_1+8];", "second_param_1[16]"}, ""},
		{"bytes", load + "\tld.global.u8 \t%rs1, [%rd1+4];\n", 8, []string{"ld.param.u8 \t%rs1, [second_param_1+4];"}, ""},
		{"not read", "", 4, []string{".param .align 16 .b8 second_param_1[4]"}, ""},
		{"indexed", load + "\tadd.s64 \t%rd3, %rd1, %rd2;\n\tld.global.u32 \t%r1, [%rd3+4];\n\tld.global.u32 \t%r2, [%rd1];\n\tld.global.u32 \t%r3, [%rd5];\n",
			metal.MaxBytes, []string{"mov.b64 %rd1, second_param_1;", "cvta.param.u64 %rd1, %rd1;", "\tld.u32 \t%r1, [%rd3+4];", "\tld.u32 \t%r2, [%rd1];", "\tld.global.u32 \t%r3, [%rd5];"}, ""},
		{"stored", load + "\tst.global.u64 \t[%rd2], %rd1;\n", 0, nil, "st.global.u64"},
		{"chosen", load + "\tselp.b64 \t%rd4, %rd1, %rd2, %p1;\n", 0, nil, "selp.b64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, size, err := passByValue(kernelPTX(c.body), "second", 1)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("error %v, want one that names %s", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if size != c.size {
				t.Errorf("%d bytes, want %d", size, c.size)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			if strings.Contains(got, "ld.param.u64 \t%rd1, [second_param_1]") {
				t.Error("still loads the pointer")
			}
		})
	}
}

func TestOnlyKernel(t *testing.T) {
	got, err := onlyKernel(kernelPTX("\tbar.sync 0;\n"), "second")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got, "entry first") || !strings.Contains(got, "bar.sync 0") || !strings.HasPrefix(got, ".version") {
		t.Errorf("got\n%s", got)
	}
	if _, err := onlyKernel(got, "first"); err == nil {
		t.Error("a kernel that is not there was found")
	}
}

func TestOverlappingWaitsFirst(t *testing.T) {
	got := overlapping(kernelPTX("\tld.param.u64 \t%rd5, [second_param_0];\n\tadd.s64 \t%rd5, %rd5, 4;\n\tld.global.u32 \t%r1, [%rd5];\n"))
	if n := strings.Count(got, "griddepcontrol.wait"); n != 2 {
		t.Errorf("%d waits for 2 kernels", n)
	}
	if strings.Index(got, "griddepcontrol.wait") > strings.Index(got, "\tret;") {
		t.Error("the first kernel waits too late")
	}
	second := got[strings.Index(got, "entry second"):]
	wait, add, load := strings.Index(second, "griddepcontrol.wait"), strings.Index(second, "add.s64"), strings.Index(second, "ld.global")
	if add > wait || wait > load || !strings.Contains(got, ".target sm_90") {
		t.Errorf("got\n%s", got)
	}
}

func TestCheckPTX(t *testing.T) {
	if err := checkPTX(kernelPTX("")); err != nil {
		t.Error(err)
	}
	err := checkPTX(".extern .func  (.param .b32 func_retval0) _Z4tanhf\n(\n\t.param .b32 _Z4tanhf_param_0\n)\n;\n")
	if err == nil || !strings.Contains(err.Error(), "_Z4tanhf") {
		t.Errorf("error %v, want one that names the function", err)
	}
}

func TestFuseMasks(t *testing.T) {
	const and, or, other = "\tand.b32  \t%r2, %r1, 240;\n", "\tor.b32  \t%r3, %r2, 1224736768;\n", "\tor.b32  \t%r3, %r4, 1224736768;\n"
	if got, want := fuseMasks(and+or), and+"\tlop3.b32 \t%r3, %r1, 240, 1224736768, 0xEA;\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := fuseMasks(and + other); got != and+other {
		t.Errorf("two that have nothing to do with each other became\n%s", got)
	}
}

func TestHoldLoads(t *testing.T) {
	const cached, held = "\tld.global.nc.v4.u32 \t{%r1, %r2, %r3, %r4}, [%rd1];", "\tld.relaxed.gpu.global.v4.u32 \t{%r1, %r2, %r3, %r4}, [%rd1];"
	const constant, mark = "\tld.param.u32 \t%r9, [second_param_1+4];", "\t// hold loads"
	got := holdLoads(strings.Join([]string{cached, "$L__BB0_2:", constant, cached, mark, cached, "\t@%p1 bra \t$L__BB0_2;", mark}, "\n"))
	want := strings.Join([]string{cached, "$L__BB0_2:", constant, held, mark, cached, "\t@%p1 bra \t$L__BB0_2;", mark}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
