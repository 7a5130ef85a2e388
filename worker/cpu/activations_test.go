package cpu

import (
	"fmt"
	"math"
	"testing"
)

// near says that got agrees with a golden printed with five or six decimals.
func near(got, want float64) bool { return math.Abs(got-want) <= 2e-4+2e-4*math.Abs(want) }

func checkNear(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	for i, w := range want {
		if !near(float64(got[i]), w) {
			t.Errorf("%s[%d] is %.6f, want %.6f", what, i, got[i], w)
		}
	}
}

func norm(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// TestDemoActivations compares hidden states, recurrent states, conv windows and KV layer by layer.
func TestDemoActivations(t *testing.T) { eachSet(t, testDemoActivations) }

func testDemoActivations(t *testing.T, set string) {
	if slow {
		t.Skip("numeric golden: too slow under the race detector")
	}
	var golden struct {
		Prompt []int32 `json:"prompt_token_ids"`
		Hidden []struct {
			Last, First []float64
			LastNorm    float64 `json:"last_norm"`
			RMS         float64
		} `json:"hidden_states"`
		Cache []struct {
			Layer     int
			Kind      string
			StateNorm float64   `json:"state_norm"`
			StateRow  []float64 `json:"state_head0_row0"`
			Conv      []float64 `json:"conv_last_col"`
			K         []float64 `json:"k_last"`
			V         []float64 `json:"v_last"`
		}
	}
	readJSON(t, "testdata/demo_activations.json", &golden)
	m := newModel(t, openDemo(t), Options{Kernels: set})
	n, hidden := len(golden.Prompt), m.shape.Hidden
	seen := 0
	m.pass.trace = func(layer int, h []float32) {
		want := golden.Hidden[layer]
		h = append([]float32(nil), h...)
		if layer == len(m.layers) {
			for i := range n {
				row := h[i*hidden : (i+1)*hidden]
				m.kernels.rmsNorm(row, row, m.weights.Norm, m.shape.NormEps)
			}
		}
		what := fmt.Sprintf("hidden state %d ", layer)
		last := h[(n-1)*hidden:]
		checkNear(t, what+"last", last, want.Last)
		checkNear(t, what+"first", h, want.First)
		checkNear(t, what+"last norm and rms", []float32{float32(norm(last)), float32(norm(h) / math.Sqrt(float64(len(h))))},
			[]float64{want.LastNorm, want.RMS})
		seen++
	}
	s := newSequence(t, m)
	forward(t, s, golden.Prompt, n)
	if seen != len(golden.Hidden) {
		t.Errorf("%d hidden states seen, want %d", seen, len(golden.Hidden))
	}
	for _, c := range golden.Cache {
		what := fmt.Sprintf("layer %d ", c.Layer)
		index := m.layers[c.Layer].index
		if c.Kind == "kv" {
			checkNear(t, what+"key", keyAt(s, index, 0, n-1), c.K)
			checkNear(t, what+"value", valueAt(s, index, 0, n-1), c.V)
			continue
		}
		size := m.shape.ValueHeads * m.shape.ValueDim * m.shape.KeyDim
		state := s.recurrent[index*size : (index+1)*size]
		checkNear(t, what+"state norm", []float32{float32(norm(state))}, []float64{c.StateNorm})
		checkNear(t, what+"state of the first key dim", state, c.StateRow)
		channels := m.shape.ConvChannels()
		column := s.conv[(index*(m.shape.Conv-1)+m.shape.Conv-2)*channels:]
		checkNear(t, what+"conv column", column, c.Conv)
	}
}
