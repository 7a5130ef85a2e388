package checkpoint

import (
	"encoding/json"
	"maps"
	"slices"
)

// quantization is MLX's "quantization" object of config.json. Bits and group sizes of a module come from its tensors'
// shapes; what the config says of the module must agree.
type quantization struct {
	given   bool
	top     override            // what holds for modules without an entry
	modules map[string]override // by canonical module path
}

// override is one entry: false or true, or an object. Numbers are 0 where it doesn't say.
type override struct {
	off         bool
	bits, group int
}

type quantFields struct {
	Method string `json:"quant_method"`
	Mode   string `json:"mode"`
	Bits   int    `json:"bits"`
	Group  int    `json:"group_size"`
}

var (
	bitWidths  = []int{2, 3, 4, 5, 6, 8}
	groupSizes = []int{32, 64, 128}
)

// parseQuantization reads "quantization", or "quantization_config" where only that is given, which may also be another
// project's.
func parseQuantization(mlx, hf json.RawMessage) (quantization, error) {
	field, raw := "quantization", mlx
	if !given(raw) {
		field, raw = "quantization_config", hf
	}
	q := quantization{modules: make(map[string]override)}
	if !given(raw) {
		return q, nil
	}
	q.given = true
	var top quantFields
	if err := json.Unmarshal(raw, &top); err != nil {
		return q, refuse("config.json: %s is malformed: %v", field, err)
	}
	if top.Method != "" {
		return q, refuse("config.json: %s has quant_method %q; Lilypad runs MLX affine or unquantised checkpoints", field, top.Method)
	}
	var err error
	if q.top, err = top.override(field); err != nil {
		return q, err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return q, refuse("config.json: %s is malformed: %v", field, err)
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		path, kind := canonical(key)
		if kind != textTensor {
			continue // bits, group_size, mode, or a module that we skip
		}
		o, err := parseOverride(field+"."+key, entries[key], q.top)
		if err != nil {
			return q, err
		}
		if before, twice := q.modules[path]; twice && before != o {
			return q, refuse("config.json: %s has two different entries for %s", field, path)
		}
		q.modules[path] = o
	}
	return q, nil
}

func parseOverride(field string, raw json.RawMessage, top override) (override, error) {
	var flag bool
	if json.Unmarshal(raw, &flag) == nil {
		if flag {
			return top, nil
		}
		return override{off: true}, nil
	}
	var f quantFields
	if err := json.Unmarshal(raw, &f); err != nil {
		return override{}, refuse("config.json: %s is neither true, false nor an object", field)
	}
	return f.override(field)
}

// override checks the numbers of an object; a missing mode is affine.
func (f *quantFields) override(field string) (override, error) {
	if f.Mode != "" && f.Mode != "affine" {
		return override{}, refuse("config.json: %s has mode %q, only \"affine\" runs", field, f.Mode)
	}
	if f.Bits != 0 && !slices.Contains(bitWidths, f.Bits) {
		return override{}, refuse("config.json: %s has bits %d, want one of %v", field, f.Bits, bitWidths)
	}
	if f.Group != 0 && !slices.Contains(groupSizes, f.Group) {
		return override{}, refuse("config.json: %s has group_size %d, want one of %v", field, f.Group, groupSizes)
	}
	return override{bits: f.Bits, group: f.Group}, nil
}
