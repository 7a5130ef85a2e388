package sample

import "testing"

// TestPhilox checks the known answers of Random123 1.09 (kat_vectors, philox4x32 with 10 rounds).
func TestPhilox(t *testing.T) {
	tests := []struct {
		name    string
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{"zeros", [4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			"ones", [4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, [2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			"pi", [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := philox(tt.counter, tt.key); got != tt.want {
				t.Errorf("got %08x, want %08x", got, tt.want)
			}
		})
	}
}

// TestUniformWords checks where seed, position, choice and draw go, against the known answers.
func TestUniformWords(t *testing.T) {
	if got, want := uniform(0, 0, 0, 0), float32(0x6627e8)/(1<<24); got != want {
		t.Errorf("zeros: %v, want %v", got, want)
	}
	got := uniform(0x299f31d0a4093822, int(0x05a308d3243f6a88), 0x13198a2e, 0x03707344)
	x := philox([4]uint32{0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0})
	if want := float32(x[0]>>8) / (1 << 24); got != want {
		t.Errorf("words: %v, want %v", got, want)
	}
}
