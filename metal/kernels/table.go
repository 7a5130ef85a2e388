package kernels

import (
	"fmt"
	"slices"
)

// Choice is how a matrix times vector is spread over a GPU. Sums are split by Split, so bits depend on it.
type Choice struct {
	Rows  int `json:"rows"`  // of a set of simdgroups: 1, 2, 4 or 8
	Split int `json:"split"` // simdgroups of a set, which share its columns: 1, 2, 4 or 8
	Sets  int `json:"sets"`  // of a threadgroup, whose simdgroups are at most 16
	Tiles int `json:"tiles"` // of a threadgroup that looks for the best logits, one after the other; else 1
}

// Table is choices that were measured, by Linear.Key. Where it has none, a rule chooses.
type Table map[string]Choice

// Check refuses choices that no kernel is made for.
func (t Table) Check() error {
	sizes := []int{1, 2, 4, 8}
	for key, c := range t {
		if !slices.Contains(sizes, c.Rows) || !slices.Contains(sizes, c.Split) || !slices.Contains(sizes, c.Tiles) || c.Sets < 1 || c.Sets*c.Split > maxSimdgroups {
			return fmt.Errorf("%s: %+v is no choice: want rows, split and tiles of 1, 2, 4 or 8, and at most %d simdgroups", key, c, maxSimdgroups)
		}
	}
	return nil
}

// Use makes the set choose by t, which Check accepts, from the next Linear on.
func (s *Set) Use(t Table) { s.table = t }

// Key names what decides how l is best spread.
func (l Linear) Key() string {
	end := "plain"
	switch {
	case l.Best != nil:
		end = "best"
	case l.Residual != nil:
		end = "residual"
	case l.SwiGLU:
		end = "swiglu"
	}
	return fmt.Sprintf("%dx%d, %v, %s", l.W.Rows, l.W.Cols, l.W.Format, end)
}

// Chosen is how the set spreads l.
func (s *Set) Chosen(l Linear) Choice {
	r := s.route(l)
	return Choice{r.rows, r.split, r.sets, r.tiles}
}

// Choices are the ways to spread l that are worth a trial: what its end allows, in threadgroups of 4 or 8 simdgroups where it
// leaves a choice, and no more simdgroups than have something to do.
func (l Linear) Choices() []Choice {
	var list []Choice
	for _, rows := range []int{1, 2, 4, 8} {
		for _, split := range []int{1, 2, 4, 8} {
			for _, sets := range []int{1, 2, 4, 8, 16} {
				for _, tiles := range []int{1, 4} {
					c := Choice{rows, split, sets, tiles}
					if c.serves(l) && (split*sets <= 8 || l.limits().tile > 1) {
						list = append(list, c)
					}
				}
			}
		}
	}
	return list
}

const mostTile = 32 // rows of a threadgroup: a lane of one simdgroup ends each

// serves says whether c can spread l.
func (c Choice) serves(l Linear) bool {
	limits := l.limits()
	switch {
	case c.Rows < limits.rows, c.Rows*c.Sets%limits.tile != 0, c.Split*c.Sets > maxSimdgroups, c.Split*c.Sets < 4:
		return false
	case c.Split > 1 && l.W.units() < 32*c.Split: // a lane of each has a unit
		return false
	case limits.tile == BestRows && c.Rows*c.Sets != BestRows: // a partial is of as many rows
		return false
	case limits.tile != BestRows && c.Tiles != 1:
		return false
	}
	return c.Rows*c.Sets <= min(max(l.W.Rows, limits.tile), mostTile)
}
