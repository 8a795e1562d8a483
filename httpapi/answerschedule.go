package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/zone"
)

// scheduleView is a schedule as an answer shows it.
type scheduleView struct {
	task     *fsmpb.Task // the schedule's record
	revision uint64
	payload  bool               // its task is shown with the payload
	calendar *calendar.Calendar // of the rule; nil: it has none, or it is not known
	missing  bool               // the rule names a calendar that does not exist
}

// view returns the view of a schedule at a revision, with its payload.
func (s *scheduleService) view(t *fsmpb.Task, revision uint64) scheduleView {
	by := calendarOf(s.calendars, t.Namespace, t.GetSeries().GetRepeat().GetCalendar())
	missing := by == nil && t.GetSeries().GetRepeat().GetCalendar() != ""
	return scheduleView{task: t, revision: revision, payload: true, calendar: by, missing: missing}
}

// append appends the schedule as a JSON object.
func (v scheduleView) append(b []byte) []byte {
	t, s, begin := v.task, v.task.GetSeries(), len(b)
	id, _ := task.SplitSeries(t.Id)
	b = contract.AppendText(b, contract.ID, id)
	b = appendRule(contract.AppendName(b, contract.Repeat), s.GetRepeat())
	b = contract.AppendText(b, contract.Misfire, nameOf(misfires, s.GetMisfire()))
	b = appendWholeSpan(b, contract.MisfireWindow, s.GetMisfireWindowMs())
	b = contract.AppendText(b, contract.Overlap, nameOf(overlaps, s.GetOverlap()))
	b = contract.AppendBool(b, contract.Paused, s.GetPaused())
	b = contract.AppendText(b, contract.Note, s.GetNote())
	b = v.appendTask(contract.AppendName(b, contract.Task))
	b = v.appendProgress(b)
	b = contract.AppendUint(b, contract.Revision, v.revision)
	b = contract.AppendUint(b, contract.Shard, uint64(t.Shard))
	b = contract.AppendTime(b, contract.CreatedAt, t.CreatedAtMs)
	return contract.Close(contract.AppendText(b, contract.TZData, zone.Version), begin)
}

// appendTask appends the task that the occurrences are made of.
func (v scheduleView) appendTask(b []byte) []byte {
	spec, begin := v.task.GetSpec(), len(b)
	b = contract.AppendText(b, contract.Queue, orElse(spec.GetQueue(), task.DefaultQueue))
	if v.payload {
		b = appendPayload(b, spec.GetPayload(), spec.GetPayloadIsBytes())
	}
	b = contract.AppendText(b, contract.ContentType, task.ContentType(spec))
	return contract.Close(appendSettings(b, spec), begin)
}

// appendRule appends a rule as it is kept. A time zone is always there.
func appendRule(b []byte, r *fsmpb.Repeat) []byte {
	begin := len(b)
	b = appendTexts(b, contract.Cron, r.GetCron())
	b = appendSpan(b, contract.Every, r.GetEveryMs())
	b = appendInstant(b, contract.Anchor, r.GetAnchorMs(), r != nil && r.AnchorMs != nil)
	b = contract.AppendText(b, contract.TimeZone, orElse(r.GetTimeZone(), repeating.UTC))
	b = appendInstant(b, contract.Start, r.GetStartMs(), r != nil && r.StartMs != nil)
	b = appendInstant(b, contract.End, r.GetEndMs(), r != nil && r.EndMs != nil)
	if r.GetCount() > 0 {
		b = contract.AppendInt(b, contract.Count, r.Count)
	}
	b = appendTexts(b, contract.Except, r.GetExcept())
	b = contract.AppendTextIf(b, contract.Calendar, r.GetCalendar())
	return contract.Close(appendSpan(b, contract.Jitter, r.GetJitterMs()), begin)
}

// appendTexts appends a list of strings, unless it is empty.
func appendTexts(b []byte, f contract.Field, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	return appendList(contract.AppendName(b, f), list, contract.AppendString)
}

// appendInstant appends an instant that may be any, also the first of 1970, if it is there.
func appendInstant(b []byte, f contract.Field, ms int64, there bool) []byte {
	if !there {
		return b
	}
	return contract.AppendTime(b, f, ms)
}

// appendWholeSpan appends a duration, also one of nothing.
func appendWholeSpan(b []byte, f contract.Field, ms int64) []byte {
	return contract.AppendDuration(contract.AppendName(b, f), time.Duration(ms)*time.Millisecond)
}

// nameOf returns the name of a policy that a newer build may know alone.
func nameOf[T ~int32](names []string, n T) string {
	if n < 0 || int(n) >= len(names) {
		return "unknown"
	}
	return names[n]
}

// appendProgress appends the state of the schedule's occurrences.
func (v scheduleView) appendProgress(b []byte) []byte {
	s := v.task.GetSeries()
	b = contract.AppendUint(b, contract.Last, s.GetLast())
	next, ended := nextOf(s, v.calendar)
	if next != nil {
		b = contract.AppendTime(b, contract.NextAt, *next)
	} else {
		b = append(contract.AppendName(b, contract.NextAt), "null"...)
	}
	b = appendNumbers(b, contract.Running, s.GetLive())
	b = appendNumbers(b, contract.Waiting, s.GetQueued())
	b = contract.AppendUint(b, contract.Started, s.GetStarted())
	b = contract.AppendUint(b, contract.Passed, s.GetPassed())
	b = contract.AppendBool(b, contract.Ended, ended)
	if v.missing {
		b = contract.AppendText(b, contract.Problem, fmt.Sprintf("the calendar %q does not exist", s.Repeat.Calendar))
	}
	return b
}

// nextOf returns the instant, in Unix milliseconds, at which the next occurrence comes due, and whether the rule has no
// further occurrence. For a moment after a change the log holds no coming occurrence, and the rule names it, without
// jitter. next is nil if there is none, in a pause, and for a rule whose instants cannot be computed, as the list of
// the occurrences then says.
func nextOf(s *fsmpb.Series, by *calendar.Calendar) (next *int64, ended bool) {
	switch coming := s.GetNext(); {
	case len(coming) > 0:
		return &coming[0].FireMs, false
	case s == nil || s.Complete:
		return nil, s != nil
	}
	rule, err := repeating.Rule(s.Repeat, by, time.UnixMilli(s.AfterMs))
	if err != nil {
		return nil, false
	}
	o, ok := rule.Next(time.UnixMilli(s.AfterMs))
	switch {
	case !ok || comingCount(s, 1) == 0:
		return nil, ok || len(o.Excluded) < repeat.MaxExcluded
	case s.Paused:
		return nil, false
	}
	ms := o.At.UnixMilli()
	return &ms, false
}

func appendNumbers(b []byte, f contract.Field, list []*fsmpb.Occurrence) []byte {
	return appendList(contract.AppendName(b, f), list, func(b []byte, o *fsmpb.Occurrence) []byte {
		return strconv.AppendUint(b, o.Number, 10)
	})
}

// write answers with one schedule and its ETag.
func (s *scheduleService) write(w http.ResponseWriter, status int, v scheduleView) {
	b := s.buffers.get()
	defer s.buffers.put(b)
	*b = append(v.append(*b), '\n')
	w.Header()["Etag"] = etag(v.revision)
	writeJSON(w, status, *b)
}

// answer answers a call that has changed a schedule.
func (s *scheduleService) answer(c *call, _ *fsmpb.Command, result *fsmpb.Result) error {
	if result.Task == nil {
		return fmt.Errorf("the backend answered %v without the schedule", result.Code)
	}
	s.write(c.Response(), statusOf(result.Code), s.changedView(result))
	return nil
}

func (s *scheduleService) changedView(result *fsmpb.Result) scheduleView {
	return s.view(result.Task, result.Revision)
}

// answerFire answers a call that has made an occurrence, which is the schedule's last one.
func (s *scheduleService) answerFire(c *call, cmd *fsmpb.Command, result *fsmpb.Result) error {
	if result.Task == nil {
		return fmt.Errorf("the backend answered %v without the schedule", result.Code)
	}
	id, _ := task.SplitSeries(cmd.Id)
	b := contract.AppendText(nil, contract.ID, task.OccurrenceID(id, result.Number))
	b = contract.AppendUint(b, contract.Number, result.Number)
	b = s.changedView(result).append(contract.AppendName(b, contract.Schedule))
	w := c.Response()
	w.Header()["Etag"] = etag(result.Revision)
	writeJSON(w, http.StatusOK, append(contract.Close(b, 0), '\n'))
	return nil
}

// scheduleProblem returns the problem for the result of a command about a schedule, or nil for a success.
func scheduleProblem(cmd *fsmpb.Command, r *fsmpb.Result) *problem {
	switch r.Code {
	case fsmpb.Code_CODE_NOT_FOUND:
		return missing(cmd.Id)
	case fsmpb.Code_CODE_PRECONDITION_FAILED:
		detail := noSuchSchedule
		if r.Revision != 0 {
			detail = fmt.Sprintf("the schedule exists, at revision %d", r.Revision)
		}
		p := &problem{kind: conditionFailed, detail: detail}
		if r.Task.GetSeries() != nil {
			p.member, p.present = contract.Schedule, scheduleView{task: r.Task, revision: r.Task.Revision, payload: true}
		}
		return p
	case fsmpb.Code_CODE_CONFLICT:
		return occurrenceProblem(cmd, r)
	case fsmpb.Code_CODE_INVALID:
		p := resultProblem(r)
		if member, _, _ := strings.Cut(r.Field, "."); contract.SpecFields.Has(contract.FieldOf([]byte(member))) {
			p.field = "task." + p.field
		}
		return p
	}
	return resultProblem(r)
}

// occurrenceProblem words the refusal of a call that the occurrences of a schedule do not allow.
func occurrenceProblem(cmd *fsmpb.Command, r *fsmpb.Result) *problem {
	p := &problem{kind: wrongOccurrence, detail: r.Detail, limit: r.Limit}
	switch {
	case p.detail != "":
	case cmd.GetSkipOccurrence() != nil:
		p.detail = "no coming occurrence is known: the schedule is paused or has ended, or its next one is not computed yet"
	case cmd.GetBackfill() != nil:
		p.detail, p.limit = "more occurrences would wait than may", fmt.Sprint(task.MaxQueuedOccurrences)
	default:
		p.detail = "another occurrence is under way or waits, and the schedule's overlap lets no further one begin"
	}
	return p
}

// stateOfOccurrence returns the state of an occurrence in a list of a schedule's last ones. Those under way, and those
// that wait, are in lists of their own.
func stateOfOccurrence(o *fsmpb.Occurrence) string {
	if o.Passed != fsmpb.Passed_PASSED_UNSPECIFIED {
		return "passed"
	}
	return stateName(o.State)
}

// The names of the reasons in JSON, by their numbers in the messages.
var (
	origins = []string{
		fsmpb.Origin_ORIGIN_RULE: "rule", fsmpb.Origin_ORIGIN_CALL: "call", fsmpb.Origin_ORIGIN_BACKFILL: "backfill",
	}
	passReasons = []string{
		fsmpb.Passed_PASSED_UNSPECIFIED: "", fsmpb.Passed_PASSED_OVERLAP: "overlap", fsmpb.Passed_PASSED_MISSED: "missed",
		fsmpb.Passed_PASSED_COALESCED: "coalesced", fsmpb.Passed_PASSED_CALL: "call",
		fsmpb.Passed_PASSED_REPLACED: "replaced",
	}
)

// lastOccurrence is an occurrence that is under way, waits, has ended or did not run.
type lastOccurrence struct {
	*fsmpb.Occurrence
	state string
}

// lastOf returns at most n last occurrences of a schedule, in the order of their numbers.
func lastOf(s *fsmpb.Series, n int) []lastOccurrence {
	var all []lastOccurrence
	for _, o := range s.Past {
		all = append(all, lastOccurrence{o, stateOfOccurrence(o)})
	}
	for _, o := range s.Live {
		all = append(all, lastOccurrence{o, "running"})
	}
	for _, o := range s.Queued {
		all = append(all, lastOccurrence{o, "waiting"})
	}
	slices.SortStableFunc(all, func(a, b lastOccurrence) int { return cmp.Compare(a.Number, b.Number) })
	return all[max(0, len(all)-n):]
}

func (o lastOccurrence) append(b []byte) []byte {
	begin := len(b)
	b = contract.AppendUint(b, contract.Number, o.Number)
	if o.Count > 1 {
		b = contract.AppendUint(b, contract.Count, o.Count)
	}
	b = contract.AppendTime(b, contract.Scheduled, o.ScheduledMs)
	b = contract.AppendText(b, contract.Origin, nameOf(origins, o.Origin))
	b = contract.AppendText(b, contract.State, o.state)
	b = contract.AppendTextIf(b, contract.Why, nameOf(passReasons, o.Passed))
	if o.BeganMs > 0 {
		b = contract.AppendTime(b, contract.BeganAt, o.BeganMs)
		b = appendWholeSpan(b, contract.Late, max(0, o.BeganMs-cmp.Or(o.FireMs, o.ScheduledMs)))
	}
	if o.Attempts > 0 {
		b = contract.AppendUint(b, contract.Attempts, uint64(o.Attempts))
	}
	b = contract.AppendTextIf(b, contract.Error, o.Error)
	if o.EndedMs > 0 {
		b = contract.AppendTime(b, contract.EndedAt, o.EndedMs)
	}
	return contract.Close(b, begin)
}

// The numbers of occurrences in a list of a schedule's.
const (
	usualOccurrences = 10
	mostOccurrences  = 100
)

// occurrenceCount reads a parameter: a number of occurrences.
func occurrenceCount(c echo.Context, parameter string) (int, error) {
	query := c.QueryParams()
	if !query.Has(parameter) {
		return usualOccurrences, nil
	}
	n, err := wholeParam(parameter, query.Get(parameter), 0, mostOccurrences)
	return int(n), err
}

// comingOccurrence is an occurrence that a rule names for the future.
type comingOccurrence struct {
	number         uint64
	scheduled, due int64     // Unix milliseconds
	local          time.Time // scheduled, in the rule's zone
	change         string    // effect of a clock change; empty: none
}

// comingOf returns at most n coming occurrences of a schedule, by its calendar: first the occurrences in the log, with
// their jitter, then later ones by the rule.
func comingOf(s *fsmpb.Series, by *calendar.Calendar, n int) ([]comingOccurrence, error) {
	rule, err := repeating.Rule(s.Repeat, by, time.UnixMilli(s.AfterMs))
	if err != nil {
		return nil, err
	}
	list, after := make([]comingOccurrence, 0, n), s.AfterMs
	for i, next := range s.Next {
		if after = next.ScheduledMs; i < n {
			list = append(list, comingAt(rule, next.ScheduledMs, next.FireMs))
		}
	}
	if !s.Paused && !s.Complete {
		list = continued(list, rule, time.UnixMilli(after), comingCount(s, n))
	}
	for i := range list {
		list[i].number = s.Last + 1 + uint64(i)
	}
	return list, nil
}

// comingCount returns how many of n coming occurrences the rule's count allows.
func comingCount(s *fsmpb.Series, n int) int {
	if s.Repeat.GetCount() == 0 {
		return n
	}
	return int(min(int64(n), max(0, s.Repeat.Count-int64(s.Ruled))))
}

// comingAt returns the occurrence at an instant that a rule has named.
func comingAt(rule *repeat.Rule, scheduled, due int64) comingOccurrence {
	at := time.UnixMilli(scheduled)
	c := comingOccurrence{scheduled: scheduled, due: due, local: at.In(rule.Zone())}
	// The rule may name another instant today, with newer time zones than those of the leader.
	if o, ok := rule.Next(at.Add(-time.Millisecond)); ok && o.At.Equal(at) {
		c.change = string(o.Change)
	}
	return c
}

// continued adds occurrences of a rule after an instant until the list has n, or until exclusions take too many away.
func continued(list []comingOccurrence, rule *repeat.Rule, after time.Time, n int) []comingOccurrence {
	for excluded := 0; len(list) < n && excluded < repeat.MaxExcluded; {
		o, ok := rule.Next(after)
		if !ok {
			break
		}
		ms := o.At.UnixMilli()
		list = append(list, comingOccurrence{scheduled: ms, due: ms, local: o.At, change: string(o.Change)})
		after, excluded = o.At, excluded+len(o.Excluded)
	}
	return list
}

func (c comingOccurrence) append(b []byte) []byte {
	begin := len(b)
	b = contract.AppendUint(b, contract.Number, c.number)
	b = contract.AppendTime(b, contract.Due, c.due)
	b = contract.AppendTime(b, contract.Scheduled, c.scheduled)
	b = contract.AppendText(b, contract.Local, c.local.Format("2006-01-02T15:04:05.000-07:00"))
	return contract.Close(contract.AppendTextIf(b, contract.ClockChange, c.change), begin)
}

// writeOccurrences answers with the coming and the last occurrences of a schedule.
func (s *scheduleService) writeOccurrences(w http.ResponseWriter, next []comingOccurrence, last []lastOccurrence) {
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := appendList(append(*buffer, `{"next":`...), next, func(b []byte, o comingOccurrence) []byte { return o.append(b) })
	b = appendList(append(b, `,"last":`...), last, func(b []byte, o lastOccurrence) []byte { return o.append(b) })
	b = append(b, "}\n"...)
	writeJSON(w, http.StatusOK, b)
	*buffer = b
}
