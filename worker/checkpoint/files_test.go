package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing/fstest"
)

// safetensors writes tensors in name order.
func safetensors(tensors map[string]rawTensor) []byte {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var body []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		header[name] = map[string]any{"dtype": t.dtype, "shape": t.shape, "data_offsets": []int{len(body), len(body) + len(t.data)}}
		body = append(body, t.data...)
	}
	return withHeader(header, body)
}

// withHeader makes a file of a header that is marshalled, or taken as it is if it is a string.
func withHeader(header any, body []byte) []byte {
	text, ok := header.(string)
	if !ok {
		j, err := json.Marshal(header)
		if err != nil {
			panic(err)
		}
		text = string(j)
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(file, text...), body...)
}

// fs writes the checkpoint with one weights file.
func (b *build) fs() fstest.MapFS {
	m := b.small()
	m[singleFile] = &fstest.MapFile{Data: safetensors(b.tensors)}
	return m
}

// sharded writes it with n weights files and an index.
func (b *build) sharded(n int) fstest.MapFS {
	m := b.small()
	parts := make([]map[string]rawTensor, n)
	index := make(map[string]string)
	for i, name := range slices.Sorted(maps.Keys(b.tensors)) {
		if parts[i%n] == nil {
			parts[i%n] = make(map[string]rawTensor)
		}
		parts[i%n][name] = b.tensors[name]
		index[name] = shardName(i%n, n)
	}
	for i, p := range parts {
		m[shardName(i, n)] = &fstest.MapFile{Data: safetensors(p)}
	}
	m[indexFile] = &fstest.MapFile{Data: marshal(map[string]any{"weight_map": index})}
	return m
}

func shardName(i, n int) string { return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n) }

func (b *build) small() fstest.MapFS {
	m := fstest.MapFS{"config.json": {Data: marshal(b.config)}}
	for name, text := range b.files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func marshal(v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return j
}

// clone copies a file map so that a test may damage it.
func clone(m fstest.MapFS) fstest.MapFS {
	out := make(fstest.MapFS)
	for name, f := range m {
		out[name] = &fstest.MapFile{Data: bytes.Clone(f.Data)}
	}
	return out
}
