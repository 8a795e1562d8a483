package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func addScheduleColumns(t *output.Table) {
	t.Columns("ID", "STATE", "NEXT", "RULE", "RUNNING", "WAITING", "QUEUE").
		Fit("NEXT", "RULE", "ID").
		Wide("LAST", "OVERLAP", "MISFIRE", "CALENDAR", "TARGET", "SHARD", "REVISION", "NOTE").Add()
}

func addSchedule(t *output.Table, s *client.Schedule) {
	t.Cells(s.ID, scheduleState(s), t.Instant(s.NextAt), rule(&s.Repeat), len(s.Running), len(s.Waiting),
		s.Task.Queue, s.Last, s.Overlap, misfire(s), s.Repeat.Calendar, targetURL(&s.Task), s.Shard, s.Revision, s.Note)
}

// fillSchedule adds the fields of a schedule that are set.
func fillSchedule(t *output.Table, s *client.Schedule) {
	t.Field("id", s.ID)
	t.Field("state", scheduleState(s))
	t.Field("note", s.Note)
	fillRule(t, &s.Repeat)
	t.Field("misfire", misfire(s))
	t.Field("overlap", string(s.Overlap))
	fillTemplate(t, &s.Task)
	t.Time("next at", s.NextAt)
	t.Field("last", strconv.FormatUint(s.Last, 10))
	t.Field("running", numbers(s.Running))
	t.Field("waiting", numbers(s.Waiting))
	t.Field("started", strconv.FormatUint(s.Started, 10))
	t.Field("passed over", strconv.FormatUint(s.Passed, 10))
	t.Field("shard", strconv.FormatUint(uint64(s.Shard), 10))
	t.Field("revision", strconv.FormatUint(s.Revision, 10))
}

func scheduleState(s *client.Schedule) string {
	switch {
	case s.Paused:
		return "paused"
	case s.Problem != "":
		return s.Problem
	case s.Ended:
		return "ended"
	}
	return "active"
}

func misfire(s *client.Schedule) string {
	if s.MisfireWindow == 0 {
		return string(s.Misfire)
	}
	return fmt.Sprintf("%s, not after %s", s.Misfire, instant.Span(s.MisfireWindow))
}

// fillRule adds the parts of a rule, a line each.
func fillRule(t *output.Table, r *client.Repeat) {
	for _, expression := range r.Cron {
		t.Field("cron", expression)
	}
	t.Field("every", interval(r))
	t.Field("time zone", r.TimeZone)
	t.Time("start", r.Start)
	t.Time("end", r.End)
	if r.Count > 0 {
		t.Field("count", strconv.FormatInt(r.Count, 10))
	}
	t.Field("except", strings.Join(r.Except, ", "))
	t.Field("calendar", r.Calendar)
	if r.Jitter > 0 {
		t.Field("jitter", instant.Span(r.Jitter))
	}
}

// interval describes an interval with its anchor. It is empty without one.
func interval(r *client.Repeat) string {
	if r.Every == 0 {
		return ""
	}
	if r.Anchor.IsZero() {
		return instant.Span(r.Every)
	}
	return fmt.Sprintf("%s, counted from %s", instant.Span(r.Every), instant.Stamp(r.Anchor))
}

// rule describes a rule in one cell.
func rule(r *client.Repeat) string {
	if r.Every > 0 {
		return "every " + instant.Span(r.Every)
	}
	return strings.Join(r.Cron, " and ") + " " + r.TimeZone
}

// fillTemplate adds the fields of a schedule's task that are set.
func fillTemplate(t *output.Table, task *client.Task) {
	t.Field("queue", task.Queue)
	t.Field("target", targetURL(task))
	t.Field("retry", retry(task.Retry))
	if task.ExpiresAfter > 0 {
		t.Field("expires after", instant.Span(task.ExpiresAfter))
	}
	t.Field("labels", labels(task.Labels))
	t.Field("payload", payload(task))
}

func numbers(list []uint64) string { return strings.Trim(fmt.Sprint(list), "[]") }

// fillOccurrences lists occurrences in the order of their numbers.
func fillOccurrences(t *output.Table, found *client.Occurrences) {
	if len(found.Last)+len(found.Next) == 0 {
		t.Row("there is no occurrence")
		return
	}
	t.Columns("NUMBER", "STATE", "SCHEDULED", "ATTEMPTS", "NOTE").Fit("SCHEDULED").Add()
	for i := range found.Last {
		o := &found.Last[i]
		t.Cells(numberOf(o), o.State, t.Instant(o.Scheduled), attempts(o), pastNote(o))
	}
	for i := range found.Next {
		o := &found.Next[i]
		t.Cells(o.Number, "coming", t.Instant(o.Scheduled), "", comingNote(o))
	}
}

// numberOf returns the number of an occurrence, or the range of numbers of several.
func numberOf(o *client.LastOccurrence) string {
	if o.Count < 2 {
		return strconv.FormatUint(o.Number, 10)
	}
	return fmt.Sprintf("%d-%d", o.Number, o.Number+o.Count-1)
}

func attempts(o *client.LastOccurrence) string {
	if o.Attempts == 0 {
		return ""
	}
	return strconv.Itoa(o.Attempts)
}

// pastNote says why an occurrence did not run, or where it comes from, how late it began and how it failed.
func pastNote(o *client.LastOccurrence) string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if o.Origin != client.OriginRule {
		add("by " + string(o.Origin))
	}
	add(whyPassed(o.Why))
	if o.Late > 0 {
		add(fmt.Sprintf("%v late", o.Late))
	}
	add(o.Error)
	return strings.Join(parts, "; ")
}

func whyPassed(why client.PassReason) string {
	switch why {
	case client.PassedOverlap:
		return "an earlier one was running or waiting"
	case client.PassedMissed:
		return "missed in an outage"
	case client.PassedCoalesced:
		return "missed in an outage, and a later one stands for it"
	case client.PassedByCall:
		return "skipped by a call"
	case client.PassedReplaced:
		return "a later one took its place"
	}
	return string(why)
}

// comingNote describes a coming occurrence by the clock of the rule's zone, with its jitter.
func comingNote(o *client.NextOccurrence) string {
	parts := []string{o.Local.Format(localFormat)}
	if note := clockNote(o.Change, ""); note != "" {
		parts = append(parts, note)
	}
	if jitter := o.Due.Sub(o.Scheduled); jitter > 0 {
		parts = append(parts, fmt.Sprintf("%v later by its jitter", jitter.Round(time.Millisecond)))
	}
	return strings.Join(parts, "; ")
}

// localFormat is the format of an instant with the offset of a rule's zone.
const localFormat = "Mon 2006-01-02 15:04:05.999 -07:00"

// fillPreview lists occurrences and exclusions in the order of their instants.
func fillPreview(t *output.Table, p *client.SchedulePreview) {
	excluded := p.Excluded
	leaveOut := func(before func(client.Exclusion) bool) {
		for len(excluded) > 0 && before(excluded[0]) {
			t.Row("%s\tleft out by %s", excluded[0].Local.Format(localFormat), excluded[0].Except)
			excluded = excluded[1:]
		}
	}
	for _, o := range p.Occurrences {
		leaveOut(func(x client.Exclusion) bool { return x.At.Before(o.At) })
		t.Row("%s\t%s", o.Local.Format(localFormat), clockNote(o.Change, o.Wall))
	}
	leaveOut(func(client.Exclusion) bool { return true })
	if p.Ended {
		t.Row("no further occurrence")
	}
	t.Row("%s, time zones of %s", p.TimeZone, p.TZData)
}

// clockNote describes the effect of a clock change on an occurrence. wall is the time that the rule names, or empty.
func clockNote(change client.ClockChange, wall string) string {
	switch change {
	case client.ChangeGap:
		_, clock, _ := strings.Cut(wall, "T")
		return "the clock skips " + cmp.Or(clock, "its time")
	case client.ChangeFirst:
		return "the first of two"
	case client.ChangeSecond:
		return "the second of two"
	}
	return string(change)
}
