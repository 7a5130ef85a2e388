package kernels

import "fmt"

// tile is what a threadgroup of a product of many rows computes: rows by outputs, of SwiGLU half as many outputs. The bits
// of an output don't depend on it.
type tile struct{ rows, outputs int }

func (t tile) String() string { return fmt.Sprintf("%dx%d", t.rows, t.outputs) }

// count is the tiles of a product.
func (t tile) count(rows, outputs int) int {
	return (rows + t.rows - 1) / t.rows * ((outputs + t.outputs - 1) / t.outputs)
}

// wideTile takes two fifths fewer loads from threadgroup memory for each product than a tile half as wide, which pays on GPUs
// with many cores once there are enough tiles that the last ones leave few cores idle. On Macs its registers leave a core
// too few threadgroups.
var wideTile = tile{64, 128}

const (
	wideCores = 100 // more than a Mac has
	wideTiles = 4   // for each core
)

// denseTile is the tile for l.
func (s *Set) denseTile(l LinearRows) tile {
	t := tile{tileHeight(l.Count), 64}
	if l.XType == F32 {
		t.rows = min(t.rows, 32) // floats of more have no room in threadgroup memory
		return t
	}
	return s.widened(t, l.Count, l.W.Rows)
}

// expertsTile is the tile for a matrix of outputs rows of each expert of g.
func (s *Set) expertsTile(g Grouped, outputs int) tile {
	return s.widened(tile{g.Height, 64}, g.Count*g.TopK, outputs)
}

func (s *Set) widened(t tile, rows, outputs int) tile {
	cores := s.device.Info().Cores
	if cores >= wideCores && t.rows == wideTile.rows && wideTile.count(rows, outputs) >= wideTiles*cores {
		return wideTile
	}
	return t
}

// tileHeight is the rows of a tile where a matrix gets count: higher tiles rebuild weights less often, lower ones waste
// less.
func tileHeight(count int) int {
	switch {
	case count <= 16:
		return 16
	case count <= 40:
		return 32
	}
	return 64
}
