package checkpoint

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// mustOpen opens what a build wrote.
func mustOpen(t *testing.T, m fstest.MapFS, opt Options) *Checkpoint {
	t.Helper()
	c, err := OpenFS(m, "test", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dump gives every weight as fp32 by a name of the one layout.
func dump(c *Checkpoint) map[string][]float32 {
	out := make(map[string][]float32)
	matrix := func(name string, m *Matrix) {
		v := make([]float32, m.Rows*m.Cols)
		for r := range m.Rows {
			m.Row(r, v[r*m.Cols:])
		}
		out[name] = v
	}
	mlp := func(p string, m *MLPWeights) {
		matrix(p+"gate_proj", &m.Gate)
		matrix(p+"up_proj", &m.Up)
		matrix(p+"down_proj", &m.Down)
	}
	w := &c.Weights
	matrix("embed_tokens", &w.Embed)
	matrix("lm_head", &w.Head)
	out["norm"] = w.Norm
	for i, l := range w.Layers {
		p := fmt.Sprintf("layers.%d.", i)
		out[p+"input_layernorm"], out[p+"post_attention_layernorm"] = l.InputNorm, l.PostNorm
		if a := l.Attn; a != nil {
			p := p + "self_attn."
			matrix(p+"q_proj", &a.Q)
			matrix(p+"k_proj", &a.K)
			matrix(p+"v_proj", &a.V)
			matrix(p+"o_proj", &a.O)
			out[p+"q_norm"], out[p+"k_norm"] = a.QNorm, a.KNorm
		}
		if d := l.Delta; d != nil {
			p := p + "linear_attn."
			matrix(p+"in_proj_qkv", &d.QKV)
			matrix(p+"in_proj_z", &d.Z)
			matrix(p+"in_proj_b", &d.B)
			matrix(p+"in_proj_a", &d.A)
			matrix(p+"out_proj", &d.Out)
			out[p+"conv1d"], out[p+"A_log"], out[p+"dt_bias"], out[p+"norm"] = d.Conv, d.ALog, d.DtBias, d.Norm
		}
		if l.MLP != nil {
			mlp(p+"mlp.", l.MLP)
		}
		if m := l.MoE; m != nil {
			p := p + "mlp."
			matrix(p+"gate", &m.Router)
			matrix(p+"shared_expert_gate", &m.SharedGate)
			mlp(p+"shared_expert.", &m.Shared)
			for e := range m.Experts {
				mlp(fmt.Sprintf("%sexperts.%d.", p, e), &m.Experts[e])
			}
		}
	}
	return out
}

// sameWeights compares two dumps bit for bit.
func sameWeights(t *testing.T, got, want map[string][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d weights, want %d", len(got), len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		g, w := got[name], want[name]
		if len(g) != len(w) {
			t.Errorf("%s has %d elements, want %d", name, len(g), len(w))
			continue
		}
		for i := range w {
			if math.Float32bits(g[i]) != math.Float32bits(w[i]) {
				t.Errorf("%s[%d] is %g, want %g", name, i, g[i], w[i])
				break
			}
		}
	}
}

// plainDump is what the tensors of newBuild mean, read without the loader.
func plainDump(b *build) map[string][]float32 {
	out := make(map[string][]float32)
	for name, t := range b.tensors {
		v := make([]float32, len(t.data)/2)
		for i := range v {
			v[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.data[2*i:])) << 16)
		}
		name = strings.TrimPrefix(strings.TrimPrefix(name, mlxPrefix), "language_model.")
		name = strings.TrimSuffix(name, ".weight")
		if before, after, ok := strings.Cut(name, "switch_mlp."); ok {
			size := len(v) / t.shape[0]
			for e := range t.shape[0] {
				out[fmt.Sprintf("%sexperts.%d.%s", before, e, after)] = v[e*size : (e+1)*size]
			}
			continue
		}
		out[name] = v
	}
	return out
}
