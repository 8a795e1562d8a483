package repeat

import (
	"fmt"
	"time"
)

// maxEffort bounds a Search to some tens of milliseconds. An examined instant costs expressionEffort for each
// expression and 1 for each exclusion, but at most instantEffort, and always that with a calendar. So a Search examines
// 10,000 instants of one expression, and always 2,000.
const (
	maxEffort        = 100_000
	expressionEffort = 10
	instantEffort    = 50
)

// Search looks for occurrences of a rule with a bounded effort, for all its calls together. Excluded instants take part
// of the effort. An interval without exclusions takes none. A call must not begin before the one before it.
type Search struct {
	rule       *Rule
	candidates candidates
	left       int // effort
}

// Search returns a Search that has not begun.
func (r *Rule) Search() *Search { return &Search{r, r.candidates(), maxEffort} }

// Span holds the first occurrences of a rule in a span of time.
type Span struct {
	Count       int64
	First, Last time.Time // zero if Count is 0
	// Partial reports that the effort ended before the span. Through is then the instant up to which the occurrences
	// are counted. It is not before Last.
	Partial bool
	Through time.Time
}

// Span is Search.Span for a Search of its own. The error reports that exclusions take away all instants that the Search
// examines.
func (r *Rule) Span(after, through time.Time, most int64) (Span, error) {
	s := r.Search().Span(after, through, most)
	if s.Partial && s.Count == 0 {
		return s, fmt.Errorf("exclusions take away all instants up to %s", s.Through.UTC().Format(time.RFC3339))
	}
	return s, nil
}

// Span returns the occurrences after an instant and not after another, but at most the first ones of them.
func (s *Search) Span(after, through time.Time, most int64) (span Span) {
	r := s.rule
	if after.Before(r.start) {
		after = r.start.Add(-time.Millisecond)
	}
	if !r.end.IsZero() && r.end.Before(through) {
		through = r.end
	}
	if r.every > 0 && !r.excludes() {
		return r.intervals(after, through, most)
	}
	for span.Count < most {
		if !s.spend() {
			span.Partial, span.Through = true, after
			break
		}
		f, ok := s.candidates.next(after)
		if !ok || f.At.After(through) {
			break
		}
		taken, until := r.exclusionOf(f.At)
		if taken == "" {
			span.add(f.At)
		} else if until.IsZero() {
			break
		}
		after = behind(f.At, until)
	}
	return span
}

// spend takes the effort of one instant. It reports false if too little is left.
func (s *Search) spend() bool {
	effort := min(expressionEffort*max(1, len(s.rule.crons))+len(s.rule.exclusionRules), instantEffort)
	if s.rule.calendar.Opening != nil {
		effort = instantEffort
	}
	if s.left < effort {
		return false
	}
	s.left -= effort
	return true
}

func (s *Span) add(at time.Time) {
	if s.Count++; s.Count == 1 {
		s.First = at
	}
	s.Last = at
}

// excludes reports whether anything takes instants of the rule away.
func (r *Rule) excludes() bool { return len(r.exclusionRules) > 0 || r.calendar.Opening != nil }

// intervals is Span for an interval without exclusions.
func (r *Rule) intervals(after, through time.Time, most int64) Span {
	first := r.nextInterval(after.UnixMilli()).At
	if most <= 0 || first.After(through) {
		return Span{}
	}
	n := min((through.UnixMilli()-first.UnixMilli())/r.every+1, most)
	return Span{Count: n, First: first, Last: time.UnixMilli(first.UnixMilli() + (n-1)*r.every).In(r.zone)}
}

// behind returns the instant after which the search goes on behind an examined instant, whose exclusion ends at until.
func behind(at, until time.Time) time.Time {
	if until.After(at) {
		return until.Add(-time.Millisecond)
	}
	return at
}
