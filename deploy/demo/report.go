package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// write prints the verdict as text.
func (v *Verdict) write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  scheduled  %7d   each acknowledged by a majority of its shard\n", v.Scheduled)
	fmt.Fprintf(&b, "  delivered  %7d\n", v.Delivered)
	fmt.Fprintf(&b, "  lost       %7d\n", v.Lost)
	fmt.Fprintf(&b, "  early      %7d\n", v.Early)
	fmt.Fprintf(&b, "  repeats    %7d   each with the webhook-id of its first, so that a receiver can drop it\n",
		v.Repeats)
	if v.Altered > 0 {
		fmt.Fprintf(&b, "  ALTERED    %7d   repeated under another webhook-id\n", v.Altered)
	}
	fmt.Fprintf(&b, "  failover   %7s   from kill -9 of %s until its %s took writes again\n",
		v.Failover.Round(time.Millisecond), v.Killed, manyShards(v.Shards))
	fmt.Fprintf(&b, "\n  %-24s %7s %10s %10s %10s\n", "lateness", "tasks", "p50", "p99", "max")
	for _, row := range []struct {
		name string
		l    Lateness
	}{{"all", v.All}, {"outside the failover", v.Calm}, {"due during the failover", v.Window}} {
		fmt.Fprintf(&b, "  %-24s %7d %10s %10s %10s\n", row.name, row.l.Tasks, ms(row.l.P50), ms(row.l.P99), ms(row.l.Max))
	}
	v.drawBins(&b)
	fmt.Fprintf(&b, "\n  verdict    %s\n", v.words())
	_, err := io.WriteString(out, b.String())
	return err
}

func manyShards(n int) string {
	if n == 1 {
		return "shard"
	}
	return fmt.Sprintf("%d shards", n)
}

const barWidth = 44

// drawBins draws the histogram: █ outside the failover, ░ during it. A bin that is not empty has at least one mark.
func (v *Verdict) drawBins(b *strings.Builder) {
	last, most := 0, 1
	for i, bin := range v.bins {
		if n := bin.calm + bin.window; n > 0 {
			last, most = i, max(most, n)
		}
	}
	length := func(n int) int { return (n*barWidth + most - 1) / most }
	b.WriteString("\n")
	for _, bin := range v.bins[:last+1] {
		bar := strings.Repeat("█", length(bin.calm)) + strings.Repeat("░", length(bin.window))
		fmt.Fprintf(b, "  %12s  %6d  %s\n", binName(bin.below), bin.calm+bin.window, bar)
	}
}

func binName(below time.Duration) string {
	if below > time.Hour {
		return "more"
	}
	return "under " + below.String()
}

func (v *Verdict) words() string {
	var bad []string
	for _, count := range []struct {
		n    int
		what string
	}{{v.Lost, "lost"}, {v.Early, "early"}, {v.Altered, "altered"}} {
		if count.n > 0 {
			bad = append(bad, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	switch {
	case v.Delivered == 0:
		return "FAILED: nothing was delivered"
	case len(bad) > 0:
		return "FAILED: " + strings.Join(bad, ", ")
	}
	return "nothing lost, nothing early"
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
