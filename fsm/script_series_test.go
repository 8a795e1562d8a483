package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// setSeriesOp sets the commands about schedules. It reports false for other verbs.
func setSeriesOp(c *fsmpb.Command, verb string, a args, now int64) bool {
	switch verb {
	case "repeat":
		c.Op = &fsmpb.Command_SetSeries{SetSeries: &fsmpb.SetSeries{Spec: a.spec(), Series: a.series(), ReceivedAtMs: now}}
	case "pause", "resume":
		c.Op = &fsmpb.Command_PauseSeries{PauseSeries: &fsmpb.PauseSeries{Paused: verb == "pause", Note: a.named["note"]}}
	case "start":
		c.Op = &fsmpb.Command_StartOccurrence{StartOccurrence: &fsmpb.StartOccurrence{}}
	case "skip":
		c.Op = &fsmpb.Command_SkipOccurrence{SkipOccurrence: &fsmpb.SkipOccurrence{}}
	case "backfill":
		c.Op = &fsmpb.Command_Backfill{Backfill: &fsmpb.Backfill{ScheduledMs: a.numbers("at")}}
	case "instants":
		c.Op = &fsmpb.Command_ExtendSeries{ExtendSeries: a.instants()}
	default:
		return false
	}
	return true
}

func (a args) series() *fsmpb.Series {
	s := &fsmpb.Series{
		Repeat:  &fsmpb.Repeat{EveryMs: a.intOr("every", 0), Count: a.intOr("count", 0), StartMs: a.optional("from")},
		Overlap: fsmpb.Overlap(fsmpb.Overlap_value["OVERLAP_"+strings.ToUpper(a.named["overlap"])]),
		Misfire: fsmpb.Misfire(fsmpb.Misfire_value["MISFIRE_"+strings.ToUpper(a.named["misfire"])]),
		Paused:  a.named["paused"] != "", Note: a.named["note"],
	}
	if v, ok := a.named["cron"]; ok {
		s.Repeat.Cron = []string{v}
	}
	return s
}

// instants reads next=instant+jitter,… and passed=reason:count:instant,…. The script fills in version and from.
func (a args) instants() *fsmpb.ExtendSeries {
	op := &fsmpb.ExtendSeries{Complete: a.named["complete"] != "", PassedToMs: a.intOr("to", 0)}
	for one := range strings.SplitSeq(a.named["next"], ",") {
		if one != "" {
			at, jitter, _ := strings.Cut(one, "+")
			scheduled := number64(at)
			op.Next = append(op.Next, &fsmpb.Instant{ScheduledMs: scheduled, FireMs: scheduled + number64(cmp.Or(jitter, "0"))})
		}
	}
	for one := range strings.SplitSeq(a.named["passed"], ",") {
		if part := strings.Split(one, ":"); len(part) == 3 {
			op.Passed = append(op.Passed, &fsmpb.Occurrence{
				Passed: fsmpb.Passed(fsmpb.Passed_value["PASSED_"+strings.ToUpper(part[0])]),
				Count:  uint64(number64(part[1])), ScheduledMs: number64(part[2]),
			})
		}
	}
	return op
}

func number64(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// bindInstants makes instants continue the schedule as it is before the block. version=old names an earlier one.
func bindInstants(m *Machine, c *fsmpb.Command, a args) {
	op := c.GetExtendSeries()
	t := m.Get("", c.Id)
	if op == nil || t.GetSeries() == nil {
		return
	}
	op.Version, op.FromMs = t.Series.Version, a.intOr("after", cursor(t.Series))
	if a.named["version"] == "old" {
		op.Version--
	}
}

func printSeries(t *fsmpb.Task) string {
	s := t.GetSeries()
	if s == nil {
		return "no schedule"
	}
	out := fmt.Sprintf("%s rev=%d version=%d last=%d ruled=%d started=%d passed=%d after=%d",
		t.Id, t.Revision, s.Version, s.Last, s.Ruled, s.Started, s.Passed, s.AfterMs)
	if s.Repeat.AnchorMs != nil {
		out += fmt.Sprintf(" anchor=%d", *s.Repeat.AnchorMs)
	}
	if s.Complete {
		out += " complete"
	}
	if s.Paused {
		out += " paused"
	}
	if s.Note != "" {
		out += " note=" + s.Note
	}
	if len(s.Next) > 0 {
		out += "\n  next"
		for _, i := range s.Next {
			out += fmt.Sprintf(" %d", i.ScheduledMs)
			if i.FireMs != i.ScheduledMs {
				out += fmt.Sprintf("+%d", i.FireMs-i.ScheduledMs)
			}
		}
	}
	return out + printOccurrences("live", s.Live) + printOccurrences("queued", s.Queued) + printOccurrences("past", s.Past)
}

func printOccurrences(name string, list []*fsmpb.Occurrence) string {
	out := ""
	for _, o := range list {
		out += fmt.Sprintf("\n  %s %d", name, o.Number)
		if o.Count > 1 {
			out += fmt.Sprintf("-%d", o.Number+o.Count-1)
		}
		out += fmt.Sprintf(" at=%d", o.ScheduledMs)
		if o.Origin != 0 {
			out += " by=" + strings.ToLower(strings.TrimPrefix(o.Origin.String(), "ORIGIN_"))
		}
		if o.Passed != 0 {
			out += " " + strings.ToLower(strings.TrimPrefix(o.Passed.String(), "PASSED_"))
		}
		if o.State != 0 {
			out += fmt.Sprintf(" %s attempts=%d began=%d ended=%d", stateName(o.State), o.Attempts, o.BeganMs, o.EndedMs)
		}
		if o.Error != "" {
			out += fmt.Sprintf(" error=%q", o.Error)
		}
	}
	return out
}

func printWanting(m *Machine) string {
	names := []string{"wanting"}
	for _, t := range m.WantingSeries(100) {
		names = append(names, t.Id)
	}
	slices.Sort(names[1:])
	return strings.Join(names, " ")
}
