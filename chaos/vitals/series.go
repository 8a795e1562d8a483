package vitals

import (
	"cmp"
	"slices"
	"time"
)

// Point is a quantity of a node at some time after the watch began.
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

// Trend is what came of a series. Its numbers are in the quantity's unit.
type Trend struct {
	Quantity string  `json:"quantity"`
	Node     string  `json:"node"`
	Unit     string  `json:"unit,omitempty"`
	Judged   bool    `json:"judged"` // false: there is no bound, or too little was seen
	Median   float64 `json:"median"`
	Max      float64 `json:"max"`
	Growth   float64 `json:"growth"` // of the trend, from the end of the warm-up to the end
	Bound    float64 `json:"bound"`
}

// Flat tells whether it grew by no more than it may.
func (t Trend) Flat() bool { return !t.Judged || t.Growth <= t.Bound }

const (
	warmUp     = 3                // of so many parts of a run the first one is for warming up
	shortest   = 20 * time.Minute // that is judged after it: tombstones make memory grow for ten
	fewest     = 20               // points in that time
	mostPoints = 600              // that the slopes are taken of: their number is the square of it
)

// Trend judges a series.
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

// warm are the points after the warm-up.
func (s Series) warm() []Point {
	if len(s.Points) == 0 {
		return nil
	}
	from := s.Points[len(s.Points)-1].At / warmUp
	i, _ := slices.BinarySearchFunc(s.Points, from, func(p Point, at time.Duration) int { return cmp.Compare(p.At, at) })
	return s.Points[i:]
}

// thinned leaves every nth point, so that mostPoints are left.
func thinned(points []Point) []Point {
	step := len(points)/mostPoints + 1
	var kept []Point
	for i := 0; i < len(points); i += step {
		kept = append(kept, points[i])
	}
	return kept
}

// slope is the median of the slopes between all pairs of points, per second.
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
