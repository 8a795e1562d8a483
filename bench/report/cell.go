package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// cell is one figure of one subject over all rounds.
type cell struct {
	values  []float64 // of the rounds that have the figure, sorted
	cannot  string
	failed  []string // why the other rounds failed
	load    float64  // median of the load's share of the processor time of load and service; 0: unknown
	present bool     // some round ran the workload with the subject
}

// cell collects a figure over all rounds.
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

// median returns the median of sorted values: the mean of the middle two of an even number, and 0 of none.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (c cell) known() bool     { return len(c.values) > 0 }
func (c cell) median() float64 { return median(c.values) }

// text formats the median, the spread if the rounds differ, the ratio to the reference, and the number of failed
// rounds.
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

// number formats a figure for its unit: large rates in thousands, and all else with three significant digits.
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

// digits formats a value with n significant digits, at most four decimals and no exponent.
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
