package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// cell is a figure of one subject over all rounds.
type cell struct {
	values  []float64 // of the rounds that gave it, sorted
	cannot  string
	failed  []string // why rounds did not give it
	load    float64  // the load's share of the processor time that it and the service used, in the middle; 0: not known
	present bool     // it was asked for at all
}

// cell collects a figure.
func (r *Run) cell(subject, workload, key string) cell {
	var c cell
	var loads []float64
	for _, m := range r.Measured {
		if m.Subject != subject || m.Workload != workload {
			continue
		}
		c.present = true
		if m.Cannot != "" {
			c.cannot = m.Cannot
		}
		if m.Failed != "" {
			c.failed = append(c.failed, fmt.Sprintf("round %d: %s", m.Round, m.Failed))
		}
		if value, ok := m.Values[key]; ok {
			c.values = append(c.values, value)
		}
		if share, ok := m.Usage.LoadShare(); ok {
			loads = append(loads, share)
		}
	}
	slices.Sort(c.values)
	slices.Sort(loads)
	c.load = median(loads)
	return c
}

// median of sorted values; of an even number the mean of the two in the middle; of none 0.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (c cell) known() bool     { return len(c.values) > 0 }
func (c cell) median() float64 { return median(c.values) }

// text is the median, the spread if there is one, the ratio to what others are compared to, and in how many rounds it
// failed.
func (c cell) text(unit string, reference cell) string {
	switch {
	case c.cannot != "":
		return "cannot"
	case !c.present:
		return "–"
	case !c.known() && len(c.failed) > 0:
		return "failed"
	case !c.known():
		return "none"
	}
	text := number(c.median(), unit)
	if low, high := number(c.values[0], unit), number(c.values[len(c.values)-1], unit); low != high {
		text += fmt.Sprintf(" (%s–%s)", low, high)
	}
	if reference.known() && reference.median() > 0 && c.median() > 0 {
		text += " ×" + ratio(c.median()/reference.median())
	}
	if len(c.failed) > 0 {
		text += fmt.Sprintf(", failed in %d", len(c.failed))
	}
	return text
}

// number writes a figure as its unit is read: rates in thousands, all else with three digits that count.
func number(value float64, unit string) string {
	switch {
	case unit == "/s" && value >= 9950:
		return digits(value/1000, 3) + "k"
	case unit == "" && value == math.Trunc(value):
		return fmt.Sprintf("%.0f", value)
	}
	return digits(value, 3)
}

func ratio(value float64) string { return digits(value, 2) }

// digits writes a value with so many digits that count, and never with an exponent.
func digits(value float64, n int) string {
	if value == 0 {
		return "0"
	}
	decimals := max(0, n-1-int(math.Floor(math.Log10(math.Abs(value)))))
	text := fmt.Sprintf("%.*f", min(decimals, 4), value)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
