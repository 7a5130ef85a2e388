package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"lilypad/worker/checkpoint"
	"lilypad/worker/checkpoint/checkpointtest"
)

// TestEveryStorage multiplies, with every kernel set, by matrices of every width, group and scale type, one row and many
// rows at once, against float64 over Matrix.Row; a row's bits don't depend on how many there are, nor on which rows of the
// matrix are wanted.
func TestEveryStorage(t *testing.T) {
	stores := []checkpointtest.Storage{checkpointtest.BF16, checkpointtest.F16, checkpointtest.F32}
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			for _, scales := range []checkpoint.DType{checkpoint.BF16, checkpoint.F16, checkpoint.F32} {
				stores = append(stores, checkpointtest.Affine(bits, group, scales))
			}
		}
	}
	eachSet(t, func(t *testing.T, set string) {
		for _, st := range stores {
			for _, cols := range []int{128, 384, 2176, 32, 16, 48, 75, 1} {
				if st.Type != checkpoint.Affine || cols%st.Group == 0 {
					checkStorage(t, set, st, cols)
				}
			}
		}
	})
}

// storageRows is more than a strip of rows, and no multiple of four.
const storageRows, storageTokens = 39, 13

func checkStorage(t *testing.T, set string, st checkpointtest.Storage, cols int) {
	rng := &checkpointtest.Random{Rand: rand.New(rand.NewPCG(uint64(cols), uint64(st.Bits))), Store: []checkpointtest.Storage{st}}
	w := rng.Matrix(storageRows, cols)
	x := newBatch(storageTokens, cols)
	for i := range storageTokens {
		copy(x.row(i), rng.Floats(cols, 0, 1))
		x.sumRow(i)
	}
	s := rowScratch(t, set, cols)
	all := make([]float32, (storageTokens+3)*outStride(storageRows))
	s.mulRows(s, all, &w, 0, storageRows, &x, nil, 0, storageTokens)
	row := make([]float32, cols)
	for r := range storageRows {
		w.Row(r, row)
		for i := range storageTokens {
			var want, size float64
			for c, v := range x.row(i) {
				want += float64(row[c]) * float64(v)
				size += math.Abs(float64(row[c]) * float64(v))
			}
			if got := float64(all[i*outStride(storageRows)+r]); !(math.Abs(got-want) <= 2e-6*size) {
				t.Fatalf("%+v, %d columns: row %d of %d times activations %d is %g, want %g", st, cols, r, storageRows, i, got, want)
			}
		}
	}
	index := []int32{6, 0, 3, 3, 5, 12, 11, 1, 2}
	for _, n := range []int{1, 2, 3, 4, 5, 31, 33, storageRows} {
		for count := 1; count <= len(index); count++ {
			some := make([]float32, (count+3)*outStride(n))
			s.mulRows(s, some, &w, storageRows-n, n, &x, index[:count], 0, count)
			for r := range n {
				for i := range count {
					got, want := some[i*outStride(n)+r], all[int(index[i])*outStride(storageRows)+storageRows-n+r]
					if math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("%+v, %d columns: row %d of %d, activations %d of %d: %x, alone %x", st, cols, r, n, i, count, got, want)
					}
				}
			}
		}
	}
}

// rowScratch is enough of a thread's memory for mulRows.
func rowScratch(t testing.TB, set string, cols int) *scratch {
	k, err := kernelsNamed(set)
	if err != nil {
		t.Fatal(err)
	}
	groups := cols/blockCols + 1
	return &scratch{
		kernels: k, tile: make([]float32, 4*padded(cols)), vector: newVectorScratch(cols),
		scale: make([]float32, 4*groups), bias: make([]float32, 4*groups), sums: make([]float32, 4*groups), dots: make([]quad, groups),
	}
}

// BenchmarkRows multiplies a matrix of 4 bits that fits in no cache by one row, and by as many as an expert or a chunk has;
// it reports weights a second, times rows, on one core.
func BenchmarkRows(b *testing.B) {
	for _, cols := range []int{512, 1024, 2048} {
		b.Run(fmt.Sprint(cols), func(b *testing.B) { benchmarkRows(b, cols) })
	}
}

func benchmarkRows(b *testing.B, cols int) {
	const rows = 1 << 15
	rng := rand.New(rand.NewPCG(1, 1))
	store := &checkpointtest.Random{Rand: rng, Store: []checkpointtest.Storage{checkpointtest.Affine(4, 64, checkpoint.BF16)}}
	w := store.Matrix(rows, cols)
	for _, set := range KernelSets() {
		for _, m := range []int{1, 2, 4, 16, 128} {
			b.Run(fmt.Sprintf("%s/%d", set, m), func(b *testing.B) {
				x := newBatch(m, cols)
				for i := range m {
					copy(x.row(i), store.Floats(cols, 0, 1))
					x.sumRow(i)
				}
				s := rowScratch(b, set, cols)
				out := make([]float32, outRoom)
				const step = 64
				at := 0
				for b.Loop() {
					s.mulRows(s, out, &w, at, step, &x, nil, 0, m)
					if at += step; at == rows {
						at = 0
					}
				}
				b.ReportMetric(float64(step)*float64(cols)*float64(m)*float64(b.N)/b.Elapsed().Seconds()/1e9, "G/s")
			})
		}
	}
}
