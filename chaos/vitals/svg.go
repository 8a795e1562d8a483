package vitals

import (
	"fmt"
	"html"
	"strings"
	"time"
)

const (
	width, height = 860, 240
	left, right   = 64, 10
	top, bottom   = 26, 24
)

// colours are the colours of the nodes. Colour-blind readers can tell them apart too.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"}

// SVG draws one quantity as a picture with a curve for each node. The vertical axis reaches from 0 to the highest
// value.
func SVG(quantity string, all []Series) string {
	var shown []Series
	var last time.Duration
	highest := 0.0
	for _, s := range all {
		if s.Quantity.Name != quantity || len(s.Points) == 0 {
			continue
		}
		shown = append(shown, s)
		last = max(last, s.Points[len(s.Points)-1].At)
		for _, p := range s.Points {
			highest = max(highest, p.Value)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`,
		width, height)
	fmt.Fprintf(&b, "\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height)
	if len(shown) > 0 && last > 0 && highest > 0 {
		p := plot{last.Seconds(), highest}
		p.axes(&b, label(shown[0].Quantity))
		for i, s := range shown {
			p.curve(&b, s, i)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func label(q Quantity) string {
	if q.Unit == "" {
		return q.Name
	}
	return q.Name + ", " + q.Unit
}

// plot maps seconds and values to positions in the picture.
type plot struct{ seconds, highest float64 }

func (p plot) x(seconds float64) float64 { return left + (width-left-right)*seconds/p.seconds }
func (p plot) y(value float64) float64   { return height - bottom - (height-top-bottom)*value/p.highest }

func (p plot) axes(b *strings.Builder, title string) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"16\" font-weight=\"bold\">%s</text>\n", left, html.EscapeString(title))
	const parts = 4
	for i := range parts + 1 {
		value := p.highest * float64(i) / parts
		fmt.Fprintf(b, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
			left, p.y(value), width-right, left-6, p.y(value)+4, value)
		at := p.seconds * float64(i) / parts
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.1f min</text>\n", p.x(at), height-8, at/60)
	}
}

func (p plot) curve(b *strings.Builder, s Series, i int) {
	colour := colours[i%len(colours)]
	fmt.Fprintf(b, "<text x=\"%d\" y=\"16\" text-anchor=\"end\" fill=\"%s\">%s</text>\n",
		width-right-70*i, colour, html.EscapeString(s.Node))
	fmt.Fprintf(b, "<polyline fill=\"none\" stroke=\"%s\" points=\"", colour)
	for _, at := range s.Points {
		fmt.Fprintf(b, "%.1f,%.1f ", p.x(at.At.Seconds()), p.y(at.Value))
	}
	b.WriteString("\"/>\n")
}
