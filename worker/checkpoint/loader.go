package checkpoint

import (
	"maps"
	"slices"
	"strings"

	"lilypad/worker/model"
)

// loader hands out the tensors of a checkpoint by canonical name, each once, and keeps the first failure.
type loader struct {
	shape    *model.Shape
	quant    *quantization
	opt      Options
	tensors  map[string]*tensor // by canonical name; what is left after assembly is unknown
	prefix   string             // what the files put before canonical names, for messages
	file     string             // the weights file or index, for messages
	raw      bool               // Hugging Face's own layout: zero-centred norms lack their +1
	progress *progress
	err      error
}

// newLoader collects the text tensors of all shards.
func newLoader(cfg *config, shards []*shard, opt Options) (*loader, error) {
	l := &loader{shape: &cfg.shape, quant: &cfg.quant, opt: opt, tensors: make(map[string]*tensor), file: singleFile}
	if shards[0].file != singleFile {
		l.file = indexFile
	}
	for _, s := range shards {
		for i := range s.tensors {
			if err := l.add(&s.tensors[i]); err != nil {
				return nil, err
			}
		}
	}
	if l.shape.Tied {
		for _, part := range []string{".weight", ".scales", ".biases"} {
			delete(l.tensors, "lm_head"+part)
		}
	}
	var total int64
	for _, t := range l.tensors {
		total += int64(len(t.data))
	}
	l.progress = &progress{report: opt.Progress, total: total}
	return l, nil
}

func (l *loader) add(t *tensor) error {
	name, kind := canonical(t.name)
	switch kind {
	case skippedTensor:
		return nil
	case unknownTensor:
		return refuse("%s: tensor %q is no part of a %s text model", t.file, t.name, l.shape.Type)
	}
	if before, twice := l.tensors[name]; twice {
		return refuse("%s: tensor %q is also in %s as %q", t.file, t.name, before.file, before.name)
	}
	l.tensors[name] = t
	if name == "norm.weight" {
		l.prefix = strings.TrimSuffix(t.name, name)
	}
	return nil
}

func (l *loader) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *loader) has(name string) bool { return l.tensors[name] != nil }

// take removes and returns a tensor, or fails and returns nil.
func (l *loader) take(name string) *tensor {
	t := l.tensors[name]
	if t == nil {
		l.fail(refuse("%s has no tensor %q", l.file, l.prefix+name))
		return nil
	}
	delete(l.tensors, name)
	if l.opt.Quantize == 0 { // else quantize counts
		l.progress.add(int64(len(t.data)))
	}
	return t
}

// leftovers refuses tensors that nothing took.
func (l *loader) leftovers() error {
	if len(l.tensors) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(l.tensors))
	t := l.tensors[names[0]]
	if len(names) == 1 {
		return refuse("%s: tensor %q is no part of a %s text model of this shape", t.file, t.name, l.shape.Type)
	}
	return refuse("%s: tensor %q and %d more are no part of a %s text model of this shape", t.file, t.name, len(names)-1, l.shape.Type)
}

// vector returns a small tensor as fp32. Axes of length 1 don't matter: [C, 1, K] and [C, K, 1] are both [C, K].
func (l *loader) vector(name string, shape ...int) []float32 {
	t := l.take(name)
	if t == nil {
		return nil
	}
	dtype, ok := floatTypes[t.dtype]
	if !ok {
		l.fail(refuse("%s: tensor %q is %s, want BF16, F16 or F32", t.file, t.name, t.dtype))
		return nil
	}
	if !slices.Equal(squeeze(t.shape), squeeze(shape)) {
		l.fail(refuse("%s: tensor %q has the shape %v, want %v", t.file, t.name, t.shape, shape))
		return nil
	}
	v := make([]float32, len(t.data)/dtype.Size())
	decode(dtype, t.data, v)
	return v
}

var floatTypes = map[string]DType{"BF16": BF16, "F16": F16, "F32": F32}

func squeeze(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(d int) bool { return d == 1 })
}

// progress counts bytes made ready and reports about every hundredth of them.
type progress struct {
	report      func(done, total int64)
	done, total int64
	reported    int64
}

func (p *progress) add(n int64) {
	p.done += n
	if p.report != nil && p.done < p.total && p.done-p.reported >= p.total/100 {
		p.reported = p.done
		p.report(p.done, p.total)
	}
}

func (p *progress) finish() {
	if p.report != nil {
		p.report(p.total, p.total)
	}
}
