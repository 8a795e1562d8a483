package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Figures are what a check counted, in words, such that those of several runs can be added: counts (int) to their sum,
// times (time.Duration) and Most, which are always the longest or largest of several, to that, and spreads to one.
type Figures struct {
	format string
	values []any
}

// NewFigures are figures in words as fmt.Sprintf takes them; each value is an int, a time.Duration or Spreads.
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

// MarshalJSON writes the words and the bare values, times in nanoseconds.
func (f Figures) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Text   string `json:"text"`
		Values []any  `json:"values"`
	}{f.String(), f.values})
}

// Plus adds the figures of another run's finding about the same invariant.
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

// Most is a count of which the largest of several runs is kept.
type Most int

// Spreads are spreads by name.
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
