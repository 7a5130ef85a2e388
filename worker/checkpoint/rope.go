package checkpoint

import (
	"encoding/json"

	"lilypad/worker/model"
)

// ropeFields are the rope settings, flat (rope_theta, partial_rotary_factor, rope_scaling) or nested (rope_parameters).
type ropeFields struct {
	Theta      *float64        `json:"rope_theta"`
	Partial    *float64        `json:"partial_rotary_factor"`
	Parameters json.RawMessage `json:"rope_parameters"`
	Scaling    json.RawMessage `json:"rope_scaling"`
}

// ropeObject is rope_parameters, or rope_scaling, which has only the type and its settings.
type ropeObject struct {
	RopeType *string  `json:"rope_type"`
	Type     *string  `json:"type"` // the older name of rope_type
	Theta    *float64 `json:"rope_theta"`
	Partial  *float64 `json:"partial_rotary_factor"`
}

// rope fills Rotary and RopeTheta. MRoPE's sections need no reading: for text its three position rows are equal.
func (t *textFields) rope(v *values, s *model.Shape) {
	theta, partial := t.Theta, t.Partial
	for _, from := range []struct {
		name string
		raw  json.RawMessage
	}{{"rope_parameters", t.Parameters}, {"rope_scaling", t.Scaling}} {
		if !given(from.raw) {
			continue
		}
		var o ropeObject
		if err := json.Unmarshal(from.raw, &o); err != nil {
			v.fail("%s is malformed: %v", from.name, err)
			return
		}
		for _, kind := range []*string{o.RopeType, o.Type} {
			if kind != nil && *kind != "default" {
				v.fail("%s has rope_type %q, only \"default\" runs; remove it to use the model's own context length", from.name, *kind)
			}
		}
		theta = agree(v, "rope_theta", theta, o.Theta)
		partial = agree(v, "partial_rotary_factor", partial, o.Partial)
	}
	if partial == nil {
		quarter := 0.25 // transformers' default for the whole family
		partial = &quarter
	}
	s.RopeTheta = v.between("rope_theta", theta, 1, 1e12)
	factor := v.between("partial_rotary_factor", partial, 0, 1)
	s.Rotary = int(float64(s.HeadDim) * factor)
	if v.err == nil && (s.Rotary < 2 || s.Rotary%2 != 0) {
		v.fail("partial_rotary_factor %g of head_dim %d gives %d rotary dims, want an even number of at least 2", factor, s.HeadDim, s.Rotary)
	}
}

// agree returns whichever of two settings is given, and fails if both are and differ.
func agree(v *values, field string, flat, nested *float64) *float64 {
	if nested == nil {
		return flat
	}
	if flat != nil && *flat != *nested {
		v.fail("%s is both %g and %g", field, *flat, *nested)
	}
	return nested
}
