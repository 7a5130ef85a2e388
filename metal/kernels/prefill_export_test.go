package kernels

import "lilypad/metal"

// LinearRowsBy prepares l with tiles of rows by outputs.
func (s *Set) LinearRowsBy(l LinearRows, rows, outputs int) (*metal.Dispatch, error) {
	return s.linearRows(l, tile{rows, outputs})
}

// ExpertsUpRowsBy prepares u with tiles of so many outputs.
func (s *Set) ExpertsUpRowsBy(u ExpertsUpRows, outputs int) (*metal.Dispatch, error) {
	return s.expertsUpRows(u, tile{u.Grouped.Height, outputs})
}

// ExpertsDownRowsBy prepares d with tiles of so many outputs.
func (s *Set) ExpertsDownRowsBy(d ExpertsDownRows, outputs int) (*metal.Dispatch, error) {
	return s.expertsDownRows(d, tile{d.Grouped.Height, outputs})
}
