package check

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Figures are the numbers that a check counted, with a format that puts them in words. Figures of several runs can be
// added: counts (int) to their sum, durations and Most to the largest, and spreads to one spread.
type Figures struct {
	format string
	values []any
}

// NewFigures returns figures with a format of package fmt. Each value is an int, a time.Duration, a Most or a Spread.
func NewFigures(format string, values ...any) Figures { return Figures{format, values} }

func (f *Finding) figures(format string, args ...any) { f.Figures = Figures{format, args} }

func (f Figures) String() string {
	values := slices.Clone(f.values)
	for i, v := range values {
		if d, ok := v.(time.Duration); ok {
			values[i] = round(d)
		}
	}
	return fmt.Sprintf(f.format, values...)
}

// Plus adds the figures of another run's finding about the same invariant. It returns other if f is empty or has
// another number of values.
func (f Figures) Plus(other Figures) Figures {
	if other.format == "" {
		return f
	}
	if f.format == "" || len(f.values) != len(other.values) {
		return other
	}
	sum := Figures{f.format, slices.Clone(f.values)}
	for i, v := range other.values {
		switch v := v.(type) {
		case int:
			sum.values[i] = sum.values[i].(int) + v
		case time.Duration:
			sum.values[i] = max(sum.values[i].(time.Duration), v)
		case Most:
			sum.values[i] = max(sum.values[i].(Most), v)
		case Spread:
			sum.values[i] = sum.values[i].(Spread).Plus(v)
		}
	}
	return sum
}

// Most is a count whose largest value over several runs is kept.
type Most int

// Spread is a histogram of durations with an error of about three percent. Its size does not grow with their number.
// The zero value is empty.
type Spread struct {
	Count  int
	Max    time.Duration // exact
	Sum    time.Duration
	bucket []int // counts, indexed by bucketOf
}

// steps is the number of buckets for each doubling of the duration.
const steps = 32

// bucketOf returns the bucket of a duration. Buckets below 2*steps hold one nanosecond value each. Any other bucket
// holds the values with equal highest bits.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 2*steps {
		return int(n)
	}
	shift := bits.Len64(n) - bits.Len(2*steps-1)
	return shift*steps + int(n>>shift)
}

// endOf returns the greatest duration that falls into bucket b.
func endOf(b int) time.Duration {
	if b < 2*steps {
		return time.Duration(b)
	}
	shift := b/steps - 1
	return time.Duration((uint64(b-shift*steps)+1)<<shift - 1)
}

// Add adds a duration to the spread. A negative duration counts as 0.
func (s *Spread) Add(d time.Duration) {
	d = max(d, 0)
	b := bucketOf(d)
	if b >= len(s.bucket) {
		s.bucket = append(s.bucket, make([]int, b+1-len(s.bucket))...)
	}
	s.bucket[b]++
	s.Count++
	s.Sum += d
	s.Max = max(s.Max, d)
}

// Plus returns the spread of the durations of s and t together.
func (s Spread) Plus(t Spread) Spread {
	longer, shorter := s.bucket, t.bucket
	if len(longer) < len(shorter) {
		longer, shorter = shorter, longer
	}
	longer = slices.Clone(longer)
	for b, n := range shorter {
		longer[b] += n
	}
	return Spread{Count: s.Count + t.Count, Max: max(s.Max, t.Max), Sum: s.Sum + t.Sum, bucket: longer}
}

// Quantile returns a duration that the given percent of the durations do not exceed. It returns 0 for an empty spread.
func (s Spread) Quantile(percent int) time.Duration {
	rank, seen := (s.Count*percent+99)/100, 0
	for b, n := range s.bucket {
		if seen += n; seen >= rank && n > 0 {
			return min(endOf(b), s.Max)
		}
	}
	return s.Max
}

// Mean returns the mean of the durations, 0 for an empty spread.
func (s Spread) Mean() time.Duration {
	if s.Count == 0 {
		return 0
	}
	return s.Sum / time.Duration(s.Count)
}

func (s Spread) String() string {
	return fmt.Sprintf("%d, p50 %v, p99 %v, max %v", s.Count, round(s.Quantile(50)), round(s.Quantile(99)), round(s.Max))
}
