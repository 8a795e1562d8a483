package vitals

import (
	"cmp"
	"slices"
	"time"
)

// Point is the value of a quantity at a time after the watch began.
type Point struct {
	At    time.Duration
	Value float64
}

// Series is one quantity of one node over time.
type Series struct {
	Quantity Quantity
	Node     string
	Points   []Point
}

// Trend is the judgement of a series. Its numbers are in the quantity's unit.
type Trend struct {
	Quantity string  `json:"quantity"`
	Node     string  `json:"node"`
	Unit     string  `json:"unit,omitempty"`
	Judged   bool    `json:"judged"` // false: the quantity has no bound, or too few points
	Median   float64 `json:"median"`
	Max      float64 `json:"max"`
	Growth   float64 `json:"growth"` // of the trend, from the end of the warm-up to the last point
	Bound    float64 `json:"bound"`
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
func (s Series) Trend() Trend {
	t := Trend{Quantity: s.Quantity.Name, Node: s.Node, Unit: s.Quantity.Unit}
	points := thinned(s.warm())
	if len(points) == 0 {
		return t
	}
	var values []float64
	for _, p := range points {
		values = append(values, p.Value)
	}
	t.Median, t.Max = median(values), slices.Max(values)
	t.Bound = s.Quantity.bound(t.Median)
	span := points[len(points)-1].At - points[0].At
	t.Judged = s.Quantity.judged() && len(points) >= fewest && span >= shortest
	t.Growth = slope(points) * span.Seconds()
	return t
}

// warm returns the points after the warm-up.
func (s Series) warm() []Point {
	if len(s.Points) == 0 {
		return nil
	}
	from := s.Points[len(s.Points)-1].At / warmUp
	i, _ := slices.BinarySearchFunc(s.Points, from, func(p Point, at time.Duration) int { return cmp.Compare(p.At, at) })
	return s.Points[i:]
}

// thinned returns every n-th point, for the least n that leaves about mostPoints.
func thinned(points []Point) []Point {
	step := len(points)/mostPoints + 1
	var kept []Point
	for i := 0; i < len(points); i += step {
		kept = append(kept, points[i])
	}
	return kept
}

// slope returns the median of the slopes between all pairs of points, per second.
func slope(points []Point) float64 {
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
