package siege

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A series of a soak is judged so:
//
//   - Flat means: the trend over the rest of the run, after a warm-up, grows by no more than the quantity's bound.
//     Falling is flat.
//   - The trend is the median of the slopes between all pairs of points (Theil, 1950; Sen, 1968). The sawtooth of a
//     garbage collector or of snapshots hardly moves it, and neither do a few wild points, but a leak of any shape
//     does.
//   - A node that does not run or does not answer leaves a gap.

// quantity is a resource of a node, with the bound of its trend. A quantity with neither Slip nor Rate is not judged.
type quantity struct {
	Name string
	Unit string
	Slip float64 // least bound on the growth of the trend in a run
	Rate float64 // bound as a part of the median, if that is more
}

// quantities returns all quantities that a watch records. Two causes of growth are part of the warm-up or within the
// bounds: tombstones, which nodes keep for ten minutes, and logs, which are cut only after each snapshot.
func quantities() []quantity {
	return []quantity{
		{Name: memory, Unit: "MiB", Slip: 12, Rate: 0.08},
		{Name: heap, Unit: "MiB", Slip: 8, Rate: 0.08},
		{Name: descriptors, Slip: 12, Rate: 0.05},
		{Name: goroutines, Slip: 30, Rate: 0.05},
		{Name: threads, Slip: 3, Rate: 0.05},
		{Name: disk, Unit: "MiB", Slip: 24, Rate: 0.1},
		{Name: processor, Unit: "cores"},
	}
}

const (
	memory      = "memory"
	heap        = "heap"
	descriptors = "descriptors"
	goroutines  = "goroutines"
	threads     = "threads"
	disk        = "disk"
	processor   = "processor"
)

func (q quantity) judged() bool { return q.Slip > 0 || q.Rate > 0 }

// bound returns the largest growth of the trend that still counts as flat.
func (q quantity) bound(median float64) float64 { return max(q.Slip, q.Rate*median) }

// point is the value of a quantity at a time after the watch began.
type point struct {
	At    time.Duration
	Value float64
}

// series is one quantity of one node over time.
type series struct {
	quantity quantity
	Node     string
	Points   []point
}

// Trend is the judgement of a series. Its numbers are in the quantity's unit.
type Trend struct {
	Quantity string
	Node     string
	Unit     string
	Judged   bool // false: the quantity has no bound, or too few points
	Median   float64
	Max      float64
	Growth   float64 // of the trend, from the end of the warm-up to the last point
	Bound    float64
}

// Flat reports whether the trend grew by no more than its bound. A trend that is not judged is flat.
func (t Trend) Flat() bool { return !t.Judged || t.Growth <= t.Bound }

const (
	warmUp     = 3                // equal parts of a run; the first is the warm-up
	shortest   = 20 * time.Minute // least time after the warm-up; tombstones make memory grow for 10 minutes
	fewest     = 20               // fewest points in that time
	mostPoints = 600              // most points in a trend; the number of slopes grows with its square
)

// Trend judges the points of a series after the warm-up.
func (s series) trend() Trend {
	t := Trend{Quantity: s.quantity.Name, Node: s.Node, Unit: s.quantity.Unit}
	points := thinned(s.warm())
	if len(points) == 0 {
		return t
	}
	var values []float64
	for _, p := range points {
		values = append(values, p.Value)
	}
	t.Median, t.Max = median(values), slices.Max(values)
	t.Bound = s.quantity.bound(t.Median)
	span := points[len(points)-1].At - points[0].At
	t.Judged = s.quantity.judged() && len(points) >= fewest && span >= shortest
	t.Growth = slope(points) * span.Seconds()
	return t
}

// warm returns the points after the warm-up.
func (s series) warm() []point {
	if len(s.Points) == 0 {
		return nil
	}
	from := s.Points[len(s.Points)-1].At / warmUp
	i, _ := slices.BinarySearchFunc(s.Points, from, func(p point, at time.Duration) int { return cmp.Compare(p.At, at) })
	return s.Points[i:]
}

// thinned returns every n-th point, for the least n that leaves about mostPoints.
func thinned(points []point) []point {
	step := len(points)/mostPoints + 1
	var kept []point
	for i := 0; i < len(points); i += step {
		kept = append(kept, points[i])
	}
	return kept
}

// slope returns the median of the slopes between all pairs of points, per second.
func slope(points []point) float64 {
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if b.At > a.At {
				slopes = append(slopes, (b.Value-a.Value)/(b.At-a.At).Seconds())
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	return median(slopes)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// enough is the shortest watch that can be judged, with some room for the samples at both ends.
const enough = shortest*warmUp/(warmUp-1) + time.Minute

// cut is the part of a watch that a series may lack at its end and still count as complete.
const cut = 0.05

// unjudged returns a sentence for each bounded quantity of a node that was not seen well enough to be judged. It
// returns none if the watch was shorter than enough. A quantity is known to be flat only if it was seen.
func unjudged(all []series, nodes []string, lasted time.Duration) []string {
	if lasted < enough {
		return nil
	}
	var missing []string
	for _, q := range quantities() {
		if !q.judged() {
			continue
		}
		for _, node := range nodes {
			i := slices.IndexFunc(all, func(s series) bool { return s.quantity.Name == q.Name && s.Node == node })
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
func (s series) lacks(lasted time.Duration) string {
	t, points := s.trend(), s.warm()
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
