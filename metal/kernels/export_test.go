package kernels

import "lilypad/metal"

// Spread is a route of Linear, for tests of each.
type Spread struct{ Rows, Split, Sets, Tiles int }

// LinearBy prepares l by a route of the caller's.
func (s *Set) LinearBy(l Linear, r Spread) (*metal.Dispatch, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return s.linear(l, route{r.Rows, r.Split, r.Sets, max(r.Tiles, 1)})
}

// ChooseRoute is the route of a matrix of rows with units of columns.
func ChooseRoute(rows, units, cores int, l Linear) Spread {
	r := chooseRoute(rows, units, cores, l.limits())
	return Spread{r.rows, r.split, r.sets, r.tiles}
}
