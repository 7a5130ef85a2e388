// Package kernels holds the MSL kernels of the decoder and a typed wrapper for each: wrappers choose a specialisation and
// a grid, check shapes, and declare which bytes are read and written. Package kernels must not import anything of ours
// but package metal.
package kernels

import (
	"embed"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"lilypad/metal"
)

//go:embed *.metal
var sources embed.FS

// Set compiles kernels for a device: each source once, each specialisation once, when it is first asked for.
type Set struct {
	device    *metal.Device
	libraries map[string]*metal.Library
	pipelines map[string]*metal.Pipeline
	table     Table
}

// New makes an empty set.
func New(device *metal.Device) *Set {
	return &Set{device: device, libraries: map[string]*metal.Library{}, pipelines: map[string]*metal.Pipeline{}}
}

// Device is the device of the set.
func (s *Set) Device() *metal.Device { return s.device }

// Pipelines is the number of specialisations compiled so far.
func (s *Set) Pipelines() int { return len(s.pipelines) }

// Close frees what was compiled. Dispatches made of it must be closed before.
func (s *Set) Close() {
	for _, p := range s.pipelines {
		p.Close()
	}
	for _, l := range s.libraries {
		l.Close()
	}
	clear(s.pipelines)
	clear(s.libraries)
}

// source is the text of a library: MSL compiled at run time has no include path, so the shared parts go in front.
func source(name string) (string, error) {
	var text []byte
	files := []string{"common.metal", "dot.metal", name + ".metal"}
	if strings.HasPrefix(name, "prefill_") {
		files = slices.Insert(files, 2, "prefill_tile.metal")
	}
	for _, file := range files {
		part, err := sources.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("kernels of %s: %w", name, err)
		}
		text = append(append(text, part...), '\n')
	}
	return string(text), nil
}

func (s *Set) library(name string) (*metal.Library, error) {
	if l := s.libraries[name]; l != nil {
		return l, nil
	}
	text, err := source(name)
	if err != nil {
		return nil, err
	}
	l, err := s.device.NewLibrary(name+".metal", text)
	if err != nil {
		return nil, err
	}
	s.libraries[name] = l
	return l, nil
}

// pipeline specialises a kernel of the file name.metal.
func (s *Set) pipeline(name, function string, constants ...metal.Constant) (*metal.Pipeline, error) {
	key := fmt.Sprint(name, " ", function, constants)
	if p := s.pipelines[key]; p != nil {
		return p, nil
	}
	l, err := s.library(name)
	if err != nil {
		return nil, err
	}
	p, err := l.NewPipeline(function, constants...)
	if err != nil {
		return nil, err
	}
	s.pipelines[key] = p
	return p, nil
}

// dispatch prepares a grid of groups threadgroups of a kernel; params, a struct of 4-byte fields or nil, is its last
// argument.
func (s *Set) dispatch(p *metal.Pipeline, buffers []metal.Binding, params any, groups, threads metal.Size) (*metal.Dispatch, error) {
	var bytes []byte
	if params != nil {
		var err error
		if bytes, err = binary.Append(nil, binary.LittleEndian, params); err != nil {
			return nil, fmt.Errorf("constants of %s: %w", p.Name(), err)
		}
	}
	return s.device.NewDispatch(metal.Launch{Pipeline: p, Buffers: buffers, Bytes: bytes, Groups: groups, Threads: threads})
}
