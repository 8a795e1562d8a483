package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// args are the words of a line: an id and pairs of the form name=value.
type args struct {
	id    string
	named map[string]string
}

func arguments(rest string) args {
	a := args{named: map[string]string{}}
	for _, word := range strings.Fields(rest) {
		if name, value, ok := strings.Cut(word, "="); ok {
			a.named[name] = value
		} else {
			a.id = word
		}
	}
	return a
}

func (a args) int(name string) int64 {
	v := a.named[name]
	if name == "" {
		v = a.id
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return n
}

func (a args) intOr(name string, or int64) int64 {
	if _, ok := a.named[name]; ok {
		return a.int(name)
	}
	return or
}

func (a args) uint(name string) uint64 { return uint64(a.intOr(name, 0)) }

func (a args) optional(name string) *int64 {
	if _, ok := a.named[name]; !ok {
		return nil
	}
	return proto.Int64(a.int(name))
}

func (a args) condition() *fsmpb.Condition {
	var c fsmpb.Condition
	switch v := a.named["if"]; v {
	case "":
		return nil
	case "absent":
		c.Absent = true
	case "present":
		c.Present = true
	default:
		c.Revisions = []uint64{a.uint("if")}
	}
	return &c
}

func (a args) schedule(now int64) *fsmpb.Schedule {
	op := &fsmpb.Schedule{Spec: a.spec(), ReceivedAtMs: now, DelayMs: a.optional("delay"), GeneratedId: a.named["generated"] != ""}
	if op.DelayMs != nil {
		op.FireAtMs = now + *op.DelayMs
	} else {
		op.FireAtMs = a.int("at")
	}
	return op
}

func (a args) spec() *fsmpb.Spec {
	spec := &fsmpb.Spec{Queue: a.named["queue"], Payload: []byte(a.named["payload"]), ExpiresAfterMs: a.intOr("expires", 0)}
	spec.Window, spec.Group, spec.Priority = a.window(), a.named["group"], uint32(a.intOr("priority", 0))
	if url, ok := a.named["url"]; ok {
		spec.Target = &fsmpb.Target{Url: url, Method: a.named["method"], TimeoutMs: a.intOr("timeout", 0)}
		if v, ok := a.named["auth"]; ok {
			spec.Target.Headers = []*fsmpb.Header{{Name: "authorization", Value: v}, {Name: "x-a", Value: v}}
		}
	}
	if n := a.intOr("attempts", 0); n > 0 {
		spec.Retry = &fsmpb.Retry{MaxAttempts: uint32(n)}
	}
	if list := a.numbers("delays"); len(list) > 0 {
		spec.Retry = &fsmpb.Retry{MaxAttempts: uint32(a.intOr("attempts", 0)), DelaysMs: list}
	}
	if v, ok := a.named["label"]; ok {
		spec.Labels = []*fsmpb.Label{{Name: "l", Value: v}}
	}
	spec.OnDelivered, spec.OnDead = a.followUp("on_delivered"), a.followUp("on_dead")
	return spec
}

// followUp parses queue,delay,payload; a payload "keep" keeps the answer.
func (a args) followUp(name string) *fsmpb.FollowUp {
	v, ok := a.named[name]
	if !ok {
		return nil
	}
	parts := strings.SplitN(v+",,", ",", 3)
	delay, _ := strconv.ParseInt(parts[1], 10, 64) // empty: 0
	payload := strings.Trim(parts[2], ",")
	f := &fsmpb.FollowUp{Spec: &fsmpb.Spec{Queue: parts[0]}, DelayMs: delay, KeepAnswer: payload == "keep"}
	if !f.KeepAnswer {
		f.Spec.Payload = []byte(payload)
	}
	return f
}

// numbers parses a list separated by commas.
func (a args) numbers(name string) (list []int64) {
	text, ok := a.named[name]
	for one := range strings.SplitSeq(text, ",") {
		if ok && one != "" {
			n, err := strconv.ParseInt(one, 10, 64)
			if err != nil {
				panic(err)
			}
			list = append(list, n)
		}
	}
	return list
}

func (a args) patch(now int64) *fsmpb.Patch {
	set := &fsmpb.Spec{Window: a.window()}
	op := &fsmpb.Patch{FireAtMs: a.optional("at"), DelayMs: a.optional("delay"), Set: set}
	if op.DelayMs != nil {
		op.FireAtMs = proto.Int64(now + *op.DelayMs)
	}
	if path, ok := a.named["clear"]; ok {
		if path == "headers" {
			path = "target.headers"
		}
		op.Clear = append(op.Clear, path)
	}
	replaced := func(name, path string) (value string, ok bool) {
		if value, ok = a.named[name]; ok {
			op.Clear = append(op.Clear, path)
		}
		return value, ok
	}
	if v, ok := replaced("payload", "payload"); ok {
		set.Payload = []byte(v)
	}
	if _, ok := replaced("on_delivered", "on_delivered"); ok {
		set.OnDelivered = a.followUp("on_delivered")
	}
	if _, ok := replaced("delays", "retry.delays"); ok {
		set.Retry = &fsmpb.Retry{DelaysMs: a.numbers("delays")}
		if ms := a.optional("min_backoff"); ms != nil {
			set.Retry.MinBackoffMs = *ms
		}
	}
	url, hasURL := a.named["url"]
	header, hasHeader := a.named["header"]
	auth, hasAuth := a.named["auth"]
	if hasURL || hasHeader || hasAuth {
		set.Target = &fsmpb.Target{Url: url}
	}
	if hasHeader {
		set.Target.Headers = append(set.Target.Headers, &fsmpb.Header{Name: "x-h", Value: header})
	}
	if hasAuth {
		set.Target.Headers = append(set.Target.Headers, &fsmpb.Header{Name: "authorization", Value: auth})
	}
	if v, ok := a.named["label"]; ok {
		set.Labels = []*fsmpb.Label{{Name: "l", Value: v}}
	}
	if set.Window != nil {
		op.Clear = append(op.Clear, "window")
	}
	if v, ok := replaced("group", "group"); ok {
		set.Group = v
	}
	if _, ok := replaced("priority", "priority"); ok {
		set.Priority = uint32(a.int("priority"))
	}
	return op
}

func (a args) policy(now int64) *fsmpb.Policy {
	return &fsmpb.Policy{
		Window: uint32(a.intOr("window", 2)), AttemptTimeoutMs: 15_000, LeaseMarginMs: 5_000, MaxAttempts: 3,
		KeepDoneMs: a.intOr("keep", 600_000), HorizonMs: 20, TombstoneBytes: a.intOr("tombstones", 0),
	}
}

func (a args) rule() *fsmpb.QueueRule {
	return &fsmpb.QueueRule{
		Queue: a.id, Pushed: a.named["pushed"] != "", Held: a.named["held"] != "",
		AttemptTimeoutMs: a.intOr("timeout", 0), MaxAttempts: uint32(a.intOr("attempts", 0)),
		KeepDoneMs: a.intOr("keep_done", 0), KeepDeadMs: a.intOr("keep_dead", 0),
		OnDelivered: a.followUp("on_delivered"), OnDead: a.followUp("on_dead"),
	}
}

// creditOf parses queue|destination=grants. A consumer's credit also has :lease:tag.
func creditOf(text string) *fsmpb.LaneCredit {
	lane, numbers, _ := strings.Cut(text, "=")
	var n [3]int
	for i, number := range strings.SplitN(numbers, ":", 3) {
		n[i], _ = strconv.Atoi(number)
	}
	return &fsmpb.LaneCredit{Lane: laneNamed(lane), Grants: uint32(n[0]), LeaseMs: int64(n[1]), Tag: uint64(n[2])}
}

// laneNamed parses queue|destination, queue|destination|group or queue|destination|group|path.
func laneNamed(text string) *fsmpb.Lane {
	queue, rest, _ := strings.Cut(text, "|")
	destination, rest, _ := strings.Cut(rest, "|")
	group, path, _ := strings.Cut(rest, "|")
	return &fsmpb.Lane{Queue: queue, Destination: destination, Group: group, Path: path}
}

func nameOf(l task.Lane) string {
	switch name := l.Queue + "|" + l.Destination; {
	case l.Path != "":
		return name + "|" + l.Group + "|" + l.Path
	case l.Group != "":
		return name + "|" + l.Group
	default:
		return name
	}
}

func hashOf(s string) uint64 {
	return xxhash.Sum64String(s)
}

// window returns the window of the argument hours, or nil.
func (a args) window() *fsmpb.Window {
	hours, ok := a.named["hours"]
	if !ok {
		return nil
	}
	return &fsmpb.Window{Daily: []string{hours}, TimeZone: "Europe/Berlin"}
}

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
