package gpu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lilypad/metal"
	"lilypad/metal/kernels"
)

// tuneVersion stands in the files of Tuning; another number means another set of choices.
const tuneVersion = 1

// Tuning is choices measured on one GPU with one system, for all models.
type Tuning struct {
	Version int           `json:"version"`
	GPU     string        `json:"gpu"` // GPUKey
	Choices kernels.Table `json:"choices"`
}

// GPUKey names what choices hold for: the GPU and what compiles for it.
func GPUKey(d *metal.Device) string {
	i := d.Info()
	return fmt.Sprintf("%s, %s, family %d, %d cores, %s", i.Driver, i.Name, i.Family, i.Cores, i.OS)
}

// ParseTuning reads what Marshal wrote, for the GPU of a GPUKey. A damaged file, or one of another GPU or system, is an error.
func ParseTuning(data []byte, gpu string) (*Tuning, error) {
	var t Tuning
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("choices of kernels: %w", err)
	}
	switch {
	case t.Version != tuneVersion:
		return nil, fmt.Errorf("choices of kernels of version %d, want %d", t.Version, tuneVersion)
	case t.GPU != gpu:
		return nil, fmt.Errorf("choices of kernels for %q, but this is %q", t.GPU, gpu)
	}
	return &t, t.Choices.Check()
}

// Marshal is t as a file.
func (t *Tuning) Marshal() ([]byte, error) {
	data, err := json.MarshalIndent(t, "", "  ")
	return append(data, '\n'), err
}

// hash names the choices in the numerics id: how sums are split decides their bits.
func hash(t kernels.Table) string {
	if len(t) == 0 {
		return ""
	}
	data, err := json.Marshal(t) // in the order of keys
	if err != nil {
		panic("BUG: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return "-t" + hex.EncodeToString(sum[:4])
}

// Trial is one choice beside the best so far.
type Trial struct {
	Key    string
	Choice kernels.Choice
	Ratio  float64 // of the time of a token, to that with the best so far: the median of pairs
	Kept   bool
}

const (
	tunePairs  = 5     // of measurements, the choice and the best so far in turn
	tuneTokens = 8     // of each
	tuneGain   = 0.005 // of a token's time: less is no reason to change
)

// Tune measures every choice for every matrix of a token at the length of s, in whole tokens, and returns the best. s is good
// for nothing else afterwards, and the model keeps the choices.
func (s *Placed) Tune(report func(Trial)) (*Tuning, error) {
	m := s.m
	if err := s.Grow(tuneTokens + 1); err != nil {
		return nil, err
	}
	list, err := s.linears()
	if err != nil {
		return nil, err
	}
	best := kernels.Table{}
	for _, l := range list {
		now, tried := m.kernels.Chosen(l), l.Choices()
		if m.opt.tries > 0 {
			tried = tried[:min(len(tried), m.opt.tries)]
		}
		for _, c := range tried {
			if c == now {
				continue
			}
			other := kernels.Table{}
			for k, v := range best {
				other[k] = v
			}
			other[l.Key()] = c
			ratio, err := s.pair(best, other)
			if err != nil {
				return nil, fmt.Errorf("%s by %+v: %w", l.Key(), c, err)
			}
			kept := ratio < 1-tuneGain
			if kept {
				best, now = other, c
			}
			report(Trial{l.Key(), c, ratio, kept})
		}
	}
	m.use(best)
	return &Tuning{tuneVersion, GPUKey(m.device), best}, nil
}

// linears are the matrices of a token, one of each kind.
func (s *Placed) linears() ([]kernels.Linear, error) {
	ops, err := s.m.tokenOps(s.len, sampled)
	if err != nil {
		return nil, err
	}
	var list []kernels.Linear
	for i := range ops {
		if l, ok := ops[i].spec.(kernels.Linear); ok && !slices.ContainsFunc(list, func(o kernels.Linear) bool { return o.Key() == l.Key() }) {
			list = append(list, l)
		}
	}
	return list, nil
}

// pair is the median, over pairs of measurements in turn, of the time with other to that with best.
func (s *Placed) pair(best, other kernels.Table) (float64, error) {
	m := s.m
	var recordings [2]*metal.Recording
	for i, t := range []kernels.Table{best, other} {
		m.kernels.Use(t)
		p := newPlan(m)
		defer p.close()
		r, err := p.recording(s.len, sampled)
		if err != nil {
			return 0, err
		}
		recordings[i] = r
	}
	var ratios []float64
	for range tunePairs + 1 { // the first pair warms up
		var times [2]time.Duration
		for i, r := range recordings {
			var err error
			if times[i], err = s.timeRecording(r, tuneTokens); err != nil {
				return 0, err
			}
		}
		ratios = append(ratios, times[1].Seconds()/max(times[0].Seconds(), 1e-9))
	}
	ratios = ratios[1:]
	slices.Sort(ratios)
	return ratios[len(ratios)/2], nil
}

// use makes the model choose by t.
func (m *Model) use(t kernels.Table) {
	m.dropPlan()
	m.kernels.Use(t)
	m.table = t
}
