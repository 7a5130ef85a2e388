package gpu

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lilypad/metal/kernels"
)

// TestTune measures a small model. Whatever wins, predictions stay right, and the numerics id says that they may have other
// bits.
func TestTune(t *testing.T) {
	d := openDevice(t)
	ck := openTiny(t, "tiny-dense-tied-r1", 4)
	m := newModel(t, d, ck, Options{Context: 256, tries: 2})
	plain := m.Kernels()
	s, err := m.Place(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	tuned, err := s.Tune(func(tr Trial) {
		seen[tr.Key]++
		if tr.Kept != (tr.Ratio < 1-tuneGain) {
			t.Errorf("%s: %+v at %.3f of the time kept: %v", tr.Key, tr.Choice, tr.Ratio, tr.Kept)
		}
	})
	s.Close()
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 4 {
		t.Errorf("choices for %d matrices were tried: %v", len(seen), seen)
	}
	data, err := tuned.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseTuning(data, GPUKey(d))
	if err != nil {
		t.Fatal(err)
	}
	other := newModel(t, d, ck, Options{Context: 256, Choices: read.Choices})
	if same := other.Kernels() == plain; same != (len(tuned.Choices) == 0) || other.Kernels() != m.Kernels() {
		t.Errorf("numerics %s, plain %s and tuned %s, of %d choices", other.Kernels(), plain, m.Kernels(), len(tuned.Choices))
	}
	q := newSequence(t, other)
	checkTokens(t, other, q, someTokens(2, other.Vocab()))
	q.Close()
}

func TestParseTuning(t *testing.T) {
	const here = "Apple M5"
	valid := Tuning{tuneVersion, here, kernels.Table{"8x64, bf16, plain": {Rows: 1, Split: 2, Sets: 4, Tiles: 1}}}
	with := func(change func(t *Tuning)) []byte {
		v := valid
		v.Choices = kernels.Table{}
		for k, c := range valid.Choices {
			v.Choices[k] = c
		}
		change(&v)
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"whole":       {with(func(*Tuning) {}), ""},
		"cut":         {with(func(*Tuning) {})[:40], "unexpected end"},
		"other GPU":   {with(func(v *Tuning) { v.GPU = "Apple M9" }), "but this is"},
		"later":       {with(func(v *Tuning) { v.Version++ }), "version 2, want 1"},
		"three rows":  {with(func(v *Tuning) { v.Choices["x"] = kernels.Choice{Rows: 3, Split: 1, Sets: 1, Tiles: 1} }), "no choice"},
		"no sets":     {with(func(v *Tuning) { v.Choices["x"] = kernels.Choice{Rows: 4, Split: 1, Tiles: 1} }), "no choice"},
		"huge groups": {with(func(v *Tuning) { v.Choices["x"] = kernels.Choice{Rows: 4, Split: 8, Sets: 4, Tiles: 1} }), "no choice"},
	} {
		got, err := ParseTuning(c.data, here)
		if c.want == "" && (err != nil || !slices.Equal(keys(got.Choices), keys(valid.Choices))) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func keys(t kernels.Table) []string {
	var list []string
	for k := range t {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// FuzzParseTuning: whatever a file says, it is refused or names choices that exist.
func FuzzParseTuning(f *testing.F) {
	data, err := json.Marshal(Tuning{tuneVersion, "", kernels.Table{"8x64, bf16, plain": {Rows: 1, Split: 2, Sets: 4, Tiles: 1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"gpu":"","choices":{"x":{"rows":1e9}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseTuning(data, "")
		if err == nil && got.Choices.Check() != nil {
			t.Errorf("accepted %s", data)
		}
	})
}
