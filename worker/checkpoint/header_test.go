package checkpoint

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"lilypad/protocol"
)

func TestHeaderRefusals(t *testing.T) {
	long := binary.LittleEndian.AppendUint64(nil, math.MaxUint64)
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"seven bytes", make([]byte, 7), `f is cut short: it has 7 bytes, a safetensors file has at least 8; download it again`},
		{"absurd length", long, `f is no safetensors file: its header would have 18446744073709551615 bytes, the most is 100000000`},
		{"length beyond the file", binary.LittleEndian.AppendUint64(nil, 9), `f is cut short: its header has 9 bytes, 0 are there; download it again`},
		{"empty header", withHeader("", nil), `f is no safetensors file: its header is no JSON object`},
		{"array", withHeader("[]", nil), `f is no safetensors file: its header is no JSON object`},
		{"cut object", withHeader(`{"a":`, nil), `f has a broken entry for tensor "a": EOF`},
		{"unclosed object", withHeader(`{`, nil), `f has a broken header: EOF`},
		{"more after it", withHeader(`{} {}`, nil), `f has a broken header: there is more after its JSON object`},
		{"twice", withHeader(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, nil), `f lists tensor "a" twice`},
		{"unknown dtype", withHeader(`{"a":{"dtype":"X","shape":[1],"data_offsets":[0,1]}}`, []byte{0}), `f: tensor "a" has the unknown dtype "X"`},
		{"no shape", withHeader(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, []byte{0}), `f: tensor "a" has no shape`},
		{"one offset", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}`, []byte{0}), `f: tensor "a" has 1 data_offsets, want 2`},
		{"backwards", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, []byte{0}), `f: tensor "a" begins at byte 1 after its end 0`},
		{"negative offset", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, []byte{0}),
			`f has a broken entry for tensor "a": json: cannot unmarshal number -1 into Go struct field entry.data_offsets of type uint64`},
		{"beyond the body", withHeader(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, []byte{0}), `f: tensor "a" ends at byte 2 of 1: the file is cut short, download it again`},
		{"wrong size", withHeader(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}}`, []byte{0}), `f: tensor "a" of F32 [1] takes 4 bytes, its data_offsets span 1`},
		{"negative dim", withHeader(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}}`, nil), `f: tensor "a" has the shape [-1]`},
		{"overflow", withHeader(`{"a":{"dtype":"U8","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}}`, nil),
			`f: tensor "a" has the shape [4294967296 4294967296 4], more than memory can hold`},
		{"half a byte", withHeader(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}`, []byte{0}), `f: tensor "a" of F4 [3] takes 1 bytes, its data_offsets span 1`},
		{"overlap", withHeader(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, make([]byte, 3)),
			`f: tensor "b" begins at byte 1 where the one before it ends at 2`},
		{"same place", withHeader(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, make([]byte, 2)),
			`f: tensor "b" begins at byte 0 where the one before it ends at 2`},
		{"hole", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, make([]byte, 3)),
			`f: tensor "b" begins at byte 2 where the one before it ends at 1`},
		{"bytes to spare", withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, make([]byte, 3)),
			`f has 3 bytes after its header, its tensors take 1; download it again`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseHeader("f", c.file)
			if err == nil || err.Error() != c.want || protocol.CodeOf(err) != protocol.CodeCheckpoint {
				t.Errorf("refused with\n%v\nwant\n%s", err, c.want)
			}
		})
	}
}

func TestHeader(t *testing.T) {
	file := withHeader(`{"__metadata__":{"format":"pt"},"b":{"dtype":"I16","shape":[],"data_offsets":[3,5]},`+
		`"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]},"none":{"dtype":"F64","shape":[0,7],"data_offsets":[3,3]}}   `, []byte{1, 2, 3, 4, 5})
	tensors, err := parseHeader("f", file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range tensors {
		got = append(got, x.name+string(x.data))
	}
	if s := strings.Join(got, " "); s != "a\x01\x02\x03 none b\x04\x05" {
		t.Errorf("tensors %q", s)
	}
}

// FuzzHeader: any bytes give an error of ours or tensors that cover the body exactly.
func FuzzHeader(f *testing.F) {
	f.Add(safetensors(map[string]rawTensor{"a": {"BF16", []int{2, 1}, make([]byte, 4)}, "b": {"U32", []int{1}, make([]byte, 4)}}))
	f.Add(withHeader(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, make([]byte, 3)))
	f.Add(withHeader(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, nil))
	f.Add(withHeader(`{"__metadata__":{"x":"y"},"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, []byte{1}))
	f.Add(bytes.Repeat([]byte{0xFF}, 16))
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, err := parseHeader("f", file)
		if err != nil {
			if protocol.CodeOf(err) != protocol.CodeCheckpoint || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error is no sentence of ours: %v", err)
			}
			return
		}
		_, body, err := headerBytes("f", file)
		if err != nil {
			t.Fatal(err)
		}
		var joined []byte
		names := make(map[string]bool)
		for _, x := range tensors {
			joined = append(joined, x.data...)
			if names[x.name] {
				t.Fatalf("%q twice", x.name)
			}
			names[x.name] = true
		}
		if !bytes.Equal(joined, body) {
			t.Fatalf("tensors have %d bytes, body %d", len(joined), len(body))
		}
	})
}
