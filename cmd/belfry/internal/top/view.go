package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// page describes the lines to render. A zero height has room for all lines.
type page struct {
	width, height int
	order         int  // of the queues
	cursor        int  // queue that is marked; -1: none
	paused, help  bool // of the screen
	addrs         string
	every         time.Duration
	styled        bool
}

// style marks a text, if the page is for a terminal.
func (p *page) style(s ansi.Style, text string) string {
	if !p.styled || text == "" {
		return text
	}
	return s.Styled(text)
}

var (
	bold    = ansi.NewStyle().Bold()
	faint   = ansi.NewStyle().Faint()
	reverse = ansi.NewStyle().Reverse(true)
	red     = ansi.NewStyle().ForegroundColor(ansi.Red)
	yellow  = ansi.NewStyle().ForegroundColor(ansi.Yellow)
)

// maxNodes and maxMoving bound the lines of a page with a height, beside which queues must have room.
const (
	maxNodes  = 5
	maxMoving = 3
)

// render returns the lines of a summary, each within the width.
func (p *page) render(s *Summary) []string {
	if p.help {
		return p.helpLines()
	}
	lines := append(p.title(s), p.figures(s)...)
	lines = append(lines, "")
	lines = append(lines, p.nodeLines(s)...)
	lines = append(lines, p.shardLines(s)...)
	lines = append(lines, p.movingLines(s)...)
	lines = append(lines, "")
	room := 0
	if p.height > 0 {
		room = max(p.height-len(lines)-1, 2)
	}
	lines = append(lines, p.queueLines(s, room)...)
	if p.height > 0 {
		lines = p.withFooter(lines)
	}
	for i := range lines {
		lines[i] = strings.TrimRight(ansi.Truncate(lines[i], p.width, "…"), " ")
	}
	return lines
}

// withFooter puts the keys into the last line of the screen.
func (p *page) withFooter(lines []string) []string {
	lines = lines[:min(len(lines), max(p.height-1, 0))]
	for len(lines) < p.height-1 {
		lines = append(lines, "")
	}
	return append(lines, p.style(faint, "q quit  p pause  s sort: "+orders[p.order].name+"  ↑↓ queues  ? help"))
}

// title returns the lines about the page itself: the cluster, the time, and since when data is stale.
func (p *page) title(s *Summary) []string {
	left := "belfry top  " + clean(p.addrs)
	right := clock(s.At)
	switch {
	case p.paused:
		right = "PAUSED  " + right
	case p.every > 0:
		right = fmt.Sprintf("every %v  %s", p.every, right)
	}
	left = ansi.Truncate(left, max(p.width-len(right)-2, 0), "…")
	gap := max(2, p.width-ansi.StringWidth(left)-len(right))
	return append([]string{p.style(bold, left) + strings.Repeat(" ", gap) + right}, p.staleLines(s)...)
}

// clock returns the time of day by the clocks of the machine's zone: "13:00:01 CET".
func clock(at time.Time) string { return at.Local().Format("15:04:05 MST") }

// staleLines returns a line for each failure. Parts that fail for one reason since one second share a line.
func (p *page) staleLines(s *Summary) []string {
	var names, lines []string // the parts of each line, and its reason
	for _, stale := range s.Stale {
		since := ": not read yet: "
		if stale.Since != nil {
			since = fmt.Sprintf(": stale since %s (%s): ", clock(*stale.Since), age(s.At.Sub(*stale.Since)))
		}
		text := since + clean(stale.Error)
		if at := slices.Index(lines, text); at >= 0 {
			names[at] += ", " + stale.Part
			continue
		}
		names, lines = append(names, stale.Part), append(lines, text)
	}
	for i := range lines {
		lines[i] = names[i] + lines[i]
	}
	if len(lines) == 1 && len(s.Stale) == numParts {
		lines[0] = "all" + strings.TrimPrefix(lines[0], names[0])
	}
	if len(s.Missing) > 0 {
		lines = append(lines, fmt.Sprintf("the leaders of shards %v did not answer: their tasks are not counted", s.Missing))
	}
	for i := range lines {
		lines[i] = p.style(red, ansi.Truncate(lines[i], p.width, "…"))
	}
	return lines
}

// figures returns the lines with the counts of the whole cluster.
func (p *page) figures(s *Summary) []string {
	known := func(n *uint64) string {
		if n == nil {
			return "?"
		}
		return count(*n)
	}
	cluster := "cluster     ?"
	if d := s.DueWithin; d != nil {
		cluster = fmt.Sprintf("cluster     waiting %s  due in 1s %s  1m %s  1h %s", known(s.InCluster), count(d.Second),
			count(d.Minute), count(d.Hour))
	}
	dead := "dead " + known(s.Dead)
	if s.Dead != nil && *s.Dead > 0 {
		dead = p.style(yellow, dead)
	}
	perSecond := "per second  ?"
	if r := s.PerSecond; r != nil {
		perSecond = fmt.Sprintf("per second  scheduled %s  fired %s  delivered %s  failed %s  cancelled %s",
			rate(r.Scheduled), rate(r.Fired), rate(r.Delivered), rate(r.Failed), rate(r.Cancelled))
	}
	return []string{
		fmt.Sprintf("queues      waiting %s  ready %s  %s", known(s.Waiting), known(s.Ready), dead), cluster, perSecond,
		latenessLine(s.Lateness),
	}
}

func latenessLine(l *Lateness) string {
	switch {
	case l == nil:
		return "lateness    ?"
	case l.Attempts == 0:
		return "lateness    no attempt within 1m"
	}
	within := func(ms *int64) string {
		if ms == nil {
			return fmt.Sprintf("> %v", time.Duration(l.OverMs)*time.Millisecond)
		}
		return fmt.Sprintf("≤ %v", time.Duration(*ms)*time.Millisecond)
	}
	return fmt.Sprintf("lateness    p50 %s  p99 %s  max %s  (%s attempts within 1m)", within(l.P50Ms), within(l.P99Ms),
		within(l.MaxMs), count(l.Attempts))
}

func (p *page) nodeLines(s *Summary) []string {
	if len(s.Nodes) == 0 {
		return nil
	}
	head := []string{"NODE", "STATE", "LAG", "CLOCK", "DISK FREE", "LEADS SHARDS"}
	lines := []string{p.style(bold, p.row(head, nodeColumns))}
	for i := range s.Nodes {
		if p.height > 0 && i == maxNodes && len(s.Nodes) > maxNodes+1 {
			return append(lines, fmt.Sprintf("… %d more", len(s.Nodes)-i))
		}
		n := &s.Nodes[i]
		lag, disk := "?", "?"
		if n.Lag != nil {
			lag = count(*n.Lag)
		}
		if n.DiskFree > 0 {
			disk = headroom.FormatBytes(n.DiskFree)
		}
		clock := fmt.Sprintf("%+.1fms", n.ClockOffsetMs)
		if !n.Up {
			clock = "?"
		}
		leads := strings.Trim(fmt.Sprintf("%d: %s", len(n.Leads), strings.Trim(fmt.Sprint(n.Leads), "[]")), ": ")
		line := p.row([]string{n.Name, n.State, lag, clock, disk, leads}, nodeColumns)
		if n.State != "up" {
			line = p.style(yellow, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// shardLines returns a line about the shards that lack a leader or a replica.
func (p *page) shardLines(s *Summary) []string {
	if len(s.Shards) == 0 {
		return nil
	}
	var leaderless, thin []string
	for _, shard := range s.Shards {
		switch id := fmt.Sprint(shard.ID); {
		case shard.Leader == "":
			leaderless = append(leaderless, id)
		case shard.Up < shard.Replicas:
			thin = append(thin, id)
		}
	}
	line := fmt.Sprintf("%d shards", len(s.Shards))
	switch {
	case len(leaderless) > 0:
		return []string{p.style(red, line+", without a leader: "+strings.Join(leaderless, " "))}
	case len(thin) > 0:
		return []string{p.style(yellow, line+", with a replica down: "+strings.Join(thin, " "))}
	}
	return []string{line + ", all with a leader and all replicas up"}
}

func (p *page) movingLines(s *Summary) []string {
	var lines []string
	for i, text := range s.Moving {
		if p.height > 0 && i == maxMoving && len(s.Moving) > maxMoving+1 {
			return append(lines, fmt.Sprintf("moving: … %d more", len(s.Moving)-i))
		}
		lines = append(lines, "moving: "+clean(text))
	}
	return lines
}

// column is a column of a table. The first column takes the width that is left.
type column struct {
	width int
	right bool
}

var (
	nodeColumns  = []column{{12, false}, {18, false}, {7, true}, {9, true}, {10, true}, {0, false}}
	queueColumns = []column{{0, false}, {10, true}, {8, true}, {8, true}, {7, true}, {8, true}, {9, true}}
)

// row aligns cells. A column of the width 0 takes the columns that are left.
func (p *page) row(cells []string, columns []column) string {
	left := p.width - 2*(len(columns)-1)
	for _, c := range columns {
		left -= c.width
	}
	parts := make([]string, len(cells))
	for i, c := range columns {
		width := c.width
		if width == 0 {
			width = max(left, 4)
		}
		parts[i] = fit(cells[i], width, c.right)
	}
	return strings.Join(parts, "  ")
}

// queueLines returns the table of queues, cut to a number of lines; 0: not cut.
func (p *page) queueLines(s *Summary, room int) []string {
	head := []string{"QUEUE", "WAITING", "READY", "RUNNING", "DEAD", "OVERDUE", "CHANGE/S"}
	lines := []string{p.style(bold, p.row(head, queueColumns))}
	if s.Dead == nil {
		return append(lines, "?")
	}
	if len(s.Queues) == 0 {
		return append(lines, "no queue has a policy or a task")
	}
	first, last := window(len(s.Queues), room-1, p.cursor)
	for i := first; i < last; i++ {
		lines = append(lines, p.queueLine(&s.Queues[i], i == p.cursor))
	}
	if s.MoreQueue && last == len(s.Queues) && room == 0 {
		lines = append(lines, fmt.Sprintf("… only the first %d queues are read", maxQueues))
	}
	return lines
}

func (p *page) queueLine(q *Queue, marked bool) string {
	name, overdue, change := q.Name, "", ""
	if q.Paused {
		name = "(paused) " + name
	}
	if q.OverdueSeconds >= overdueTrouble {
		overdue = age(time.Duration(q.OverdueSeconds * float64(time.Second)))
	}
	if q.ChangePerSecond != nil {
		change = rate(*q.ChangePerSecond)
	}
	line := p.row([]string{name, count(q.Waiting), count(q.Ready), count(q.Running), count(q.Dead), overdue, change},
		queueColumns)
	switch {
	case marked:
		return p.style(reverse, line)
	case q.trouble() < 2:
		return p.style(yellow, line)
	}
	return line
}

// window chooses the rows of a room, from first to last-1, out of n. The row of the cursor is among them. A room
// below 1 has all rows.
func window(n, room, cursor int) (first, last int) {
	if room < 1 || n <= room {
		return 0, n
	}
	first = min(max(0, cursor-room/2), n-room)
	return first, first + room
}

const helpText = `belfry top shows a cluster live.

  q, ctrl-c    quit
  p, space     pause, and go on
  s            order queues by trouble, waiting, ready, dead, change or name
  j k, ↓ ↑     mark the next or previous queue; page keys, home, end
  ?            this help

queues         the tasks of the namespace
cluster        tasks of all namespaces that wait, and that come due, overdue
               ones included
per second     over the last ten seconds, of all namespaces
lateness       begin of attempts after their due time: bounds, of 1m
LAG            log entries that the node's slowest replica is behind
CLOCK          the node's clock minus the answering node's
READY          due, and waiting for their receiver or a consumer
OVERDUE        age of the oldest ready task
CHANGE/S       growth of the number of unfinished tasks

Any key closes this help.`

func (p *page) helpLines() []string {
	lines := strings.Split(helpText, "\n")
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], p.width, "…")
	}
	return lines[:min(len(lines), max(p.height, 1))]
}

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
var count = output.Grouped[uint64]

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
