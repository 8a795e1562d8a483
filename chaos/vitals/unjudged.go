package vitals

import (
	"fmt"
	"slices"
	"time"
)

// Enough is the shortest watch that can be judged, with some room for the samples at both ends.
const Enough = shortest*warmUp/(warmUp-1) + time.Minute

// cut is the part of a watch that a series may lack at its end and still count as complete.
const cut = 0.05

// Unjudged returns a sentence for each bounded quantity of a node that was not seen well enough to be judged. It
// returns none if the watch was shorter than Enough. A quantity is known to be flat only if it was seen.
func Unjudged(all []Series, nodes []string, lasted time.Duration) []string {
	if lasted < Enough {
		return nil
	}
	var missing []string
	for _, q := range Quantities() {
		if !q.judged() {
			continue
		}
		for _, node := range nodes {
			i := slices.IndexFunc(all, func(s Series) bool { return s.Quantity.Name == q.Name && s.Node == node })
			if i < 0 {
				missing = append(missing, fmt.Sprintf("%s of %s was never seen", q.Name, node))
				continue
			}
			if why := all[i].lacks(lasted); why != "" {
				missing = append(missing, fmt.Sprintf("%s of %s %s", q.Name, node, why))
			}
		}
	}
	return missing
}

// lacks returns why a series cannot be judged after a watch of that length, or an empty text if it can.
func (s Series) lacks(lasted time.Duration) string {
	t, points := s.Trend(), s.warm()
	switch {
	case len(points) == 0 || !t.Judged:
		return fmt.Sprintf("was seen %d times after its warm-up, which is too little to be judged", len(points))
	case points[len(points)-1].At < lasted-time.Duration(cut*float64(lasted)):
		return fmt.Sprintf("was last seen after %v of %v", points[len(points)-1].At.Round(time.Second),
			lasted.Round(time.Second))
	case t.Max == 0:
		return "was nothing all the time"
	}
	return ""
}
