package top

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// clean returns a text of the cluster that is safe in a terminal. Control characters, such as the begin of an escape
// sequence, characters that change the direction of text or have no width, and invalid bytes become a dot.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) {
			return '·'
		}
		return r
	}, text)
}

// fit returns a clean text in an exact number of columns, cut or padded. It pads on the left for numbers.
func fit(text string, columns int, right bool) string {
	text = ansi.Truncate(clean(text), columns, "…")
	pad := strings.Repeat(" ", max(0, columns-ansi.StringWidth(text)))
	if right {
		return pad + text
	}
	return text + pad
}

// count writes a number with a comma between thousands.
func count(n uint64) string {
	return output.Grouped(int64(n))
}

// rate writes a number of events a second.
func rate(v float64) string {
	if v >= 100 || v <= -100 || v == 0 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// age writes a duration in its largest units: 3s, 12m, 3h20m, 4d.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// bytes writes a size: 3.4 GiB.
func bytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for ; v >= 1<<10 && unit < len(units)-1; unit++ {
		v /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}
