package metal

import (
	"fmt"
	"math"
)

// ConstantType is the MSL type of a function constant.
type ConstantType int

// The types that kernels use for function constants.
const (
	BoolConstant ConstantType = iota + 1
	IntConstant
	UintConstant
	FloatConstant
)

// Constant is the value of one function constant.
type Constant struct {
	ID   int // of [[function_constant(ID)]]
	Type ConstantType
	Bits uint32 // the value's bits; 0 or 1 for a bool
}

// Uint is a constant of MSL type uint.
func Uint(id int, v uint32) Constant { return Constant{id, UintConstant, v} }

// Int is a constant of MSL type int.
func Int(id int, v int32) Constant { return Constant{id, IntConstant, uint32(v)} }

// Float is a constant of MSL type float.
func Float(id int, v float32) Constant { return Constant{id, FloatConstant, math.Float32bits(v)} }

// Bool is a constant of MSL type bool.
func Bool(id int, v bool) Constant {
	c := Constant{ID: id, Type: BoolConstant}
	if v {
		c.Bits = 1
	}
	return c
}

func checkConstants(list []Constant) error {
	for i, c := range list {
		if c.ID < 0 || c.ID > math.MaxUint16 {
			return fmt.Errorf("function constant %d: ids go from 0 to %d", c.ID, math.MaxUint16)
		}
		if c.Type < BoolConstant || c.Type > FloatConstant || c.Type == BoolConstant && c.Bits > 1 {
			return fmt.Errorf("function constant %d: %#x is no value of type %d", c.ID, c.Bits, c.Type)
		}
		for _, o := range list[:i] {
			if o.ID == c.ID {
				return fmt.Errorf("function constant %d is given twice", c.ID)
			}
		}
	}
	return nil
}
