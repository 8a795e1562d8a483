package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Figures are the numbers that a check counted, with a format that puts them in words. Figures of several runs can be
// added: counts (int) to their sum, durations and Most to the largest, and spreads to one spread.
type Figures struct {
	format string
	values []any
}

// NewFigures returns figures with a format of package fmt. Each value is an int, a time.Duration, a Most or Spreads.
func NewFigures(format string, values ...any) Figures { return Figures{format, values} }

func (f *Finding) figures(format string, args ...any) { f.Figures = Figures{format, args} }

func (f Figures) String() string {
	shown := slices.Clone(f.values)
	for i, v := range shown {
		if d, ok := v.(time.Duration); ok {
			shown[i] = round(d)
		}
	}
	return fmt.Sprintf(f.format, shown...)
}

// MarshalJSON writes the figures in words, and the bare values, with durations in nanoseconds.
func (f Figures) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Text   string `json:"text"`
		Values []any  `json:"values"`
	}{f.String(), f.values})
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
		case Spreads:
			sum.values[i] = sum.values[i].(Spreads).plus(v)
		}
	}
	return sum
}

// Most is a count whose largest value over several runs is kept.
type Most int

// Spreads holds spreads by name.
type Spreads map[string]Spread

func (s Spreads) plus(other Spreads) Spreads {
	sum := Spreads{}
	for _, from := range []Spreads{s, other} {
		for name, one := range from {
			sum[name] = sum[name].Plus(one)
		}
	}
	return sum
}

func (s Spreads) String() string {
	var parts []string
	for name, one := range s {
		parts = append(parts, name+": "+one.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}
