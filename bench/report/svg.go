package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

const (
	pictureWidth = 760
	labelWidth   = 230
	numberWidth  = 110
	barHeight    = 18
	rowHeight    = 28
	headHeight   = 44
)

// style makes a picture readable on light and on dark pages.
const style = `<style>
text { font: 13px sans-serif; fill: #24292f; }
.title { font-weight: bold; }
.note { font-size: 11px; fill: #57606a; }
.bar { fill: #8c959f; }
.ours { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .note { fill: #9198a1; }
  .bar { fill: #656c76; }
  .ours { fill: #4493f8; }
}
</style>
`

// bar is one subject in a picture.
type bar struct {
	name  string
	value float64
}

// svg draws the first column of a table as bars. It returns "" if there is nothing to draw.
func (r *Run) svg(t table) string {
	at := t.columns[0]
	kind := r.kind(at.workload, at.key)
	if kind == nil {
		return ""
	}
	var bars []bar
	for _, s := range r.Subjects {
		if c := r.cell(s.Name, at.workload, at.key); c.known() {
			bars = append(bars, bar{s.Name, c.median()})
		}
	}
	if len(bars) == 0 {
		return ""
	}
	better := "less is better"
	if kind.Higher {
		better = "more is better"
	}
	scale := newScale(bars)
	height := headHeight + rowHeight*len(bars) + 6
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n%s", pictureWidth,
		height, style)
	fmt.Fprintf(&b, "<text class=\"title\" x=\"8\" y=\"18\">%s</text>\n", html.EscapeString(t.title))
	fmt.Fprintf(&b, "<text class=\"note\" x=\"8\" y=\"35\">%s; %s%s</text>\n", html.EscapeString(r.header(at)), better,
		scale.note())
	for i, bar := range bars {
		bar.draw(&b, headHeight+rowHeight*i, scale, kind.Unit)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (b bar) draw(w *strings.Builder, y int, s scale, unit string) {
	class := "bar"
	if strings.HasPrefix(b.name, "Belfry") {
		class = "ours"
	}
	width := s.width(b.value)
	fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", labelWidth-8, y+barHeight-4,
		html.EscapeString(b.name))
	fmt.Fprintf(w, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>", class, labelWidth, y,
		width, barHeight)
	fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\">%s%s</text>\n", labelWidth+width+6, y+barHeight-4,
		number(b.value, unit), html.EscapeString(spaced(unit)))
}

// scale maps values to lengths: linear, or logarithmic if the largest value is more than 100 times the smallest.
type scale struct {
	lowest, highest float64
	logarithmic     bool
}

func newScale(bars []bar) scale {
	s := scale{lowest: math.Inf(1)}
	for _, b := range bars {
		s.highest = max(s.highest, b.value)
		if b.value > 0 {
			s.lowest = min(s.lowest, b.value)
		}
	}
	s.logarithmic = s.highest > 100*s.lowest
	return s
}

func (s scale) note() string {
	if s.logarithmic {
		return "; logarithmic"
	}
	return ""
}

const shortestBar = 2

func (s scale) width(value float64) float64 {
	const room = pictureWidth - labelWidth - numberWidth
	share := 0.0
	switch {
	case value <= 0 || s.highest <= 0:
	case s.logarithmic:
		lowest := s.lowest / 2 // gives the lowest value a visible bar
		share = math.Log(value/lowest) / math.Log(s.highest/lowest)
	default:
		share = value / s.highest
	}
	return max(shortestBar, share*room)
}
