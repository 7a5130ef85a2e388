package kernels

import "lilypad/metal"

// LinearRowsBy prepares l with tiles of height rows; 0 for the route's own.
func (s *Set) LinearRowsBy(l LinearRows, height int) (*metal.Dispatch, error) {
	if height == 0 {
		return s.LinearRows(l)
	}
	return s.linearRows(l, height)
}
