package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
)

// shard is one opened weights file.
type shard struct {
	file    string
	data    []byte
	tensors []tensor
	close   func() error
}

// shards opens model.safetensors, or else what model.safetensors.index.json names, as transformers does. The shards
// opened so far come with an error too, for the caller to close.
func (d *directory) shards() ([]*shard, error) {
	one, err := d.shard(singleFile)
	if err == nil {
		return []*shard{one}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	index, err := d.read(indexFile)
	if err != nil {
		return nil, err
	}
	if index == nil {
		return nil, d.noWeights()
	}
	weightMap, err := parseIndex(index)
	if err != nil {
		return nil, err
	}
	files := slices.Compact(slices.Sorted(maps.Values(weightMap)))
	var all []*shard
	for _, file := range files {
		s, err := d.shard(file)
		if errors.Is(err, fs.ErrNotExist) {
			return all, refuse("%s names %s, which is missing; download it", indexFile, file)
		}
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, checkIndex(weightMap, all)
}

// shard opens and parses one file; fs.ErrNotExist is returned as it is.
func (d *directory) shard(file string) (*shard, error) {
	data, closer, err := d.open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, refuse("%s can't be opened: %v", file, err)
	}
	s := &shard{file: file, data: data, close: closer}
	if err = checkPointer(file, data); err == nil && bytes.HasPrefix(data, []byte("GGUF")) {
		err = refuse("%s is a GGUF file under another name, which Lilypad does not read", file)
	}
	if err == nil {
		s.tensors, err = parseHeader(file, data)
	}
	if err != nil {
		return nil, errors.Join(err, closer())
	}
	return s, nil
}

// noWeights says what is there instead of weights.
func (d *directory) noWeights() error {
	if some, _ := fs.Glob(d.fsys, "*.safetensors"); len(some) > 0 {
		return refuse("%s holds %s but neither %s nor %s; download the index", d.name, some[0], singleFile, indexFile)
	}
	if gguf, _ := fs.Glob(d.fsys, "*.gguf"); len(gguf) > 0 {
		return refuse("%s holds the GGUF file %s, which Lilypad does not read; give a directory with the model's safetensors files", d.name, gguf[0])
	}
	return refuse("%s has neither %s nor %s; download the weights", d.name, singleFile, indexFile)
}

// parseIndex reads the index: tensor name to shard file, which must be a plain name beside it.
func parseIndex(data []byte) (map[string]string, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, jsonRefusal(indexFile, err)
	}
	if len(index.WeightMap) == 0 {
		return nil, refuse("%s has no weight_map", indexFile)
	}
	for _, name := range slices.Sorted(maps.Keys(index.WeightMap)) {
		file := index.WeightMap[name]
		if strings.ContainsAny(file, `/\`) || !strings.HasSuffix(file, ".safetensors") || !fs.ValidPath(file) {
			return nil, refuse("%s places tensor %q in %q, want the name of a .safetensors file beside it", indexFile, name, file)
		}
	}
	return index.WeightMap, nil
}

// checkIndex refuses shards that lack a tensor which the index promises. A tensor that is never loaded may be missing.
func checkIndex(weightMap map[string]string, shards []*shard) error {
	where := make(map[string]string)
	for _, s := range shards {
		for _, t := range s.tensors {
			if before, twice := where[t.name]; twice {
				return refuse("tensor %q is in both %s and %s", t.name, before, s.file)
			}
			where[t.name] = s.file
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		if _, kind := canonical(name); kind == skippedTensor {
			continue
		}
		if where[name] == "" {
			return refuse("%s has no tensor %q, which %s places there", weightMap[name], name, indexFile)
		}
		if where[name] != weightMap[name] {
			return refuse("tensor %q is in %s, but %s places it in %s", name, where[name], indexFile, weightMap[name])
		}
	}
	return nil
}
