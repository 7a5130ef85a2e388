package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// maxHeader is the most bytes of JSON that the safetensors format allows.
const maxHeader = 100_000_000

// tensor is one entry of a safetensors file.
type tensor struct {
	name  string // as in the file
	file  string // shard that holds it
	dtype string // as in the file: BF16, U32 ...
	shape []int
	data  []byte // view of the file
}

// elementBits gives the width of each dtype of the format.
var elementBits = map[string]uint64{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I16": 16, "U16": 16, "F16": 16, "BF16": 16,
	"I32": 32, "U32": 32, "F32": 32,
	"I64": 64, "U64": 64, "F64": 64, "C64": 64,
}

// headerBytes returns the JSON of a safetensors file and the tensor bytes after it. The file is a little-endian 64-bit
// length, that many bytes of JSON, then the tensors.
func headerBytes(file string, data []byte) (header, body []byte, err error) {
	if len(data) < 8 {
		return nil, nil, refuse("%s is cut short: it has %d bytes, a safetensors file has at least 8; download it again", file, len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeader {
		return nil, nil, refuse("%s is no safetensors file: its header would have %d bytes, the most is %d", file, n, maxHeader)
	}
	if n > uint64(len(data)-8) {
		return nil, nil, refuse("%s is cut short: its header has %d bytes, %d are there; download it again", file, n, len(data)-8)
	}
	return data[8 : 8+n], data[8+n:], nil
}

// parseHeader reads the table of contents of a safetensors file. Every tensor returned lies inside body, and together
// they cover it once, as the format demands.
func parseHeader(file string, data []byte) ([]tensor, error) {
	header, body, err := headerBytes(file, data)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, refuse("%s is no safetensors file: its header is no JSON object", file)
	}
	type placed struct {
		tensor
		begin, end uint64
	}
	var all []placed
	seen := make(map[string]bool)
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, refuse("%s has a broken header: %v", file, err)
		}
		name := tok.(string) // keys of a JSON object are strings
		if seen[name] {
			return nil, refuse("%s lists tensor %q twice", file, name)
		}
		seen[name] = true
		if name == "__metadata__" {
			var ignored json.RawMessage
			if err := dec.Decode(&ignored); err != nil {
				return nil, refuse("%s has a broken header: %v", file, err)
			}
			continue
		}
		var e entry
		if err := dec.Decode(&e); err != nil {
			return nil, refuse("%s has a broken entry for tensor %q: %v", file, name, err)
		}
		if err := e.check(uint64(len(body))); err != nil {
			return nil, refuse("%s: tensor %q %v", file, name, err)
		}
		t := tensor{name: name, file: file, dtype: e.DType, shape: e.Shape, data: body[e.Offsets[0]:e.Offsets[1]:e.Offsets[1]]}
		all = append(all, placed{t, e.Offsets[0], e.Offsets[1]})
	}
	if _, err := dec.Token(); err != nil {
		return nil, refuse("%s has a broken header: %v", file, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, refuse("%s has a broken header: there is more after its JSON object", file)
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	tensors := make([]tensor, len(all))
	var end uint64
	for i, t := range all {
		if t.begin != end {
			return nil, refuse("%s: tensor %q begins at byte %d where the one before it ends at %d", file, t.name, t.begin, end)
		}
		end = t.end
		tensors[i] = t.tensor
	}
	if end != uint64(len(body)) {
		return nil, refuse("%s has %d bytes after its header, its tensors take %d; download it again", file, len(body), end)
	}
	return tensors, nil
}

// entry is one value of the header's JSON object.
type entry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

// check compares an entry with itself and with the size of the body; its error continues "tensor X".
func (e *entry) check(body uint64) error {
	width, ok := elementBits[e.DType]
	switch {
	case !ok:
		return fmt.Errorf("has the unknown dtype %q", e.DType)
	case e.Shape == nil:
		return fmt.Errorf("has no shape")
	case len(e.Offsets) != 2:
		return fmt.Errorf("has %d data_offsets, want 2", len(e.Offsets))
	case e.Offsets[0] > e.Offsets[1]:
		return fmt.Errorf("begins at byte %d after its end %d", e.Offsets[0], e.Offsets[1])
	case e.Offsets[1] > body:
		return fmt.Errorf("ends at byte %d of %d: the file is cut short, download it again", e.Offsets[1], body)
	}
	size := width
	for _, d := range e.Shape {
		if d < 0 {
			return fmt.Errorf("has the shape %v", e.Shape)
		}
		hi, lo := bits.Mul64(size, uint64(d))
		if hi != 0 {
			return fmt.Errorf("has the shape %v, more than memory can hold", e.Shape)
		}
		size = lo
	}
	if have := e.Offsets[1] - e.Offsets[0]; size%8 != 0 || size/8 != have {
		return fmt.Errorf("of %s %v takes %d bytes, its data_offsets span %d", e.DType, e.Shape, size/8, have)
	}
	return nil
}
