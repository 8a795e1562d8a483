// Package progress shows the progress of long work beside its result, on the standard error.
//
//	terminal       one line with a bar, the count, the rate and the remaining time; it is gone at the end
//	no terminal    a plain line every ten seconds at most; short work has none
//
// The rate and the remaining time are of the progress since the first state that was shown, since the work may have
// begun long before. Package progressbar draws the bar.
package progress

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// Unknown is the share of work without a known end.
const Unknown = -1.0

// Bytes is the unit of a count of bytes, which is shown in KiB, MiB and so on.
const Bytes = "bytes"

// State is how far work has come.
type State struct {
	Work  string  // the work in few words
	Count int64   // units that are done
	Unit  string  // plural of the unit; empty: no count is shown
	Share float64 // part that is done, from 0 to 1; or Unknown
	Waits string  // why the work does not go on; empty: it does
}

// Meter shows the states of one piece of work. It is for one goroutine.
type Meter struct {
	out   io.Writer
	now   func() time.Time
	width func() int // of the terminal; nil: out is none

	first  State
	began  time.Time // of the first state
	spoken time.Time // of the last plain line, or of the first state
	bar    *progressbar.ProgressBar
}

// pause is the shortest time between two plain lines.
const pause = 10 * time.Second

// New returns a meter that writes to out.
func New(out io.Writer) *Meter {
	m := &Meter{out: out, now: time.Now}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		m.width = func() int {
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil {
				return 0
			}
			return width
		}
	}
	return m
}

// Show shows a state. A failure to write is no reason to stop the work, so Show has no error.
func (m *Meter) Show(s State) {
	now := m.now()
	s.Work, s.Waits = output.Text(s.Work), output.Text(s.Waits)
	if m.began.IsZero() {
		m.first, m.began, m.spoken = s, now, now
	}
	figures := strings.Join(m.figures(s, now.Sub(m.began)), ", ")
	switch {
	case m.width != nil:
		m.draw(figures, s)
	case now.Sub(m.spoken) >= pause:
		m.spoken = now
		_, _ = fmt.Fprintln(m.out, s.Work+": "+figures+waits(s))
	}
}

// figures returns the share, the count, the rate and the remaining time of a state, as far as they are known.
func (m *Meter) figures(s State, elapsed time.Duration) (parts []string) {
	if s.Share >= 0 && m.width == nil { // the bar shows it otherwise
		parts = append(parts, fmt.Sprintf("%.0f %%", 100*s.Share))
	}
	if s.Unit != "" {
		parts = append(parts, amount(s.Count, s.Unit))
		if rate := float64(s.Count-m.first.Count) / elapsed.Seconds(); elapsed > 0 && rate >= 1 {
			parts = append(parts, amount(int64(rate), s.Unit)+"/s")
		}
	}
	if gained := s.Share - m.first.Share; m.first.Share >= 0 && gained > 0 && s.Share < 1 {
		left := time.Duration(math.Min((1-s.Share)/gained*float64(elapsed), math.MaxInt64/2))
		parts = append(parts, fmt.Sprintf("about %v left", left.Round(time.Second)))
	}
	if len(parts) == 0 && s.Share < 0 {
		parts = append(parts, "under way")
	}
	return parts
}

func waits(s State) string {
	if s.Waits == "" {
		return ""
	}
	return ", waits: " + s.Waits
}

func amount(n int64, unit string) string {
	if unit == Bytes {
		return headroom.FormatBytes(uint64(max(n, 0)))
	}
	return output.Grouped(n) + " " + unit
}

const (
	barWidth = 20
	barRoom  = barWidth + 11 // with its frame, the share, and spaces
	steps    = 1000          // of the bar
	minWidth = 50
	minWork  = 8
)

// cut returns the first n characters of a text at most, with a mark if some are missing.
func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}

// draw shows a state in one line of the terminal. If it is too long, the name of the work gives way to the figures.
func (m *Meter) draw(figures string, s State) {
	total := int64(steps)
	if s.Share < 0 {
		total = -1 // a bar that moves and has no end
	}
	if m.bar == nil {
		m.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(m.out), progressbar.OptionSetWidth(barWidth),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSpinnerType(14))
	}
	room := max(m.width(), minWidth) - barRoom
	text := cut(s.Work, max(room-len([]rune(figures))-2, minWork))
	if figures != "" {
		text += ": " + figures
	}
	m.bar.Describe(cut(text+waits(s), room))
	if s.Share < 0 {
		_ = m.bar.Add(1)
		return
	}
	_ = m.bar.Set64(min(int64(s.Share*steps), steps-1)) // the bar would end its line at the last step
}

// Close removes the bar from the terminal.
func (m *Meter) Close() {
	if m.bar != nil {
		_ = m.bar.Clear()
		m.bar = nil
	}
}

// Writer returns a writer that passes bytes on to out, and shows their number. total is the number of all bytes, or 0
// if it is not known.
func (m *Meter) Writer(out io.Writer, work string, total int64) io.Writer {
	return io.MultiWriter(out, &counter{meter: m, work: work, total: total})
}

// Reader returns a reader that passes bytes on from in, and shows their number as Writer does.
func (m *Meter) Reader(in io.Reader, work string, total int64) io.Reader {
	return io.TeeReader(in, &counter{meter: m, work: work, total: total})
}

// counter shows the number of bytes that pass.
type counter struct {
	meter *Meter
	work  string
	total int64
	n     int64
	shown time.Time
}

// interval is the time between two states of a stream of bytes.
const interval = 100 * time.Millisecond

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	now := c.meter.now()
	if now.Sub(c.shown) < interval {
		return len(p), nil
	}
	c.shown = now
	share := Unknown
	if c.total > 0 {
		share = math.Min(float64(c.n)/float64(c.total), 1)
	}
	c.meter.Show(State{Work: c.work, Count: c.n, Unit: Bytes, Share: share})
	return len(p), nil
}
