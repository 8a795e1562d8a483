package fsm

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

var update = flag.Bool("update", false, "write what the scripts in testdata print as what they shall print")

// The files testdata/*.txt specify the behaviour of the machine. A block is one or more lines of commands, a line
// ----, and the expected output; the commands of one block form one entry of the log. Every script runs on two
// machines. The second is restored from a snapshot of the first before every block. Both must print the same and end
// in the same hash.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	assert.NoError(t, err)
	s := &script{t: t, m: New(7)}
	var printed strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		printed.WriteString(s.block(block) + "\n\n")
	}
	got := strings.TrimSpace(printed.String()) + "\n"
	if *update {
		assert.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	if diff := gocmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (- told, + happened):\n%s", file, diff)
	}
}

type script struct {
	t   *testing.T
	m   *Machine
	now int64

	changed []task.LaneLoad // by the last entry
	events  []task.Event    // since the last look at them
}

// block runs one block and returns it with its output.
func (s *script) block(block string) string {
	commands, _, _ := strings.Cut(block, "\n----")
	var entry fsmpb.Entry
	var looks []string
	for _, line := range strings.Split(commands, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c, look := s.parse(line)
		if c != nil {
			entry.Commands = append(entry.Commands, c)
		}
		if look != "" {
			looks = append(looks, look)
		}
	}
	out := s.apply(&entry)
	for _, look := range looks {
		out = append(out, s.look(look))
	}
	if len(entry.Commands)+len(looks) == 0 {
		return commands
	}
	return commands + "\n----\n" + strings.Join(out, "\n")
}

// apply applies the entry to the machine and to a copy of it restored from a snapshot.
func (s *script) apply(entry *fsmpb.Entry) []string {
	if len(entry.Commands) == 0 {
		return nil
	}
	entry.Version, entry.AtMs = CommandVersion, s.now
	data, err := proto.Marshal(entry)
	assert.NoError(s.t, err)
	copied, told := restored(s.t, s.m), len(s.events)
	s.m.Observe(func(e *task.Event) { s.events = append(s.events, *e) })
	var toldAgain []task.Event
	copied.Observe(func(e *task.Event) { toldAgain = append(toldAgain, *e) })
	applied := applyBytes(s.t, s.m, data)
	again := applyBytes(s.t, copied, data)
	s.changed = applied.Lanes
	out, outCopied := printApplied(applied), printApplied(again)
	if diff := gocmp.Diff(out, outCopied); diff != "" {
		s.t.Errorf("a machine restored from a snapshot went another way (- first, + restored):\n%s", diff)
	}
	if diff := gocmp.Diff(s.events[told:], toldAgain, cmpopts.EquateEmpty(), protocmp.Transform()); diff != "" {
		s.t.Errorf("a machine restored from a snapshot told other events (- first, + restored):\n%s", diff)
	}
	audit(s.t, s.m)
	audit(s.t, copied)
	if a, b := s.m.store.Hash(), copied.store.Hash(); a != b {
		s.t.Errorf("after %v: the hash is %x, and %x on a machine restored from a snapshot", out, a, b)
	}
	return out
}

func applyBytes(t testing.TB, m *Machine, data []byte) Applied {
	t.Helper()
	applied, err := applyAndScribble(m, data, true)
	assert.NoError(t, err)
	return applied
}

// applyAndScribble applies an entry and then overwrites its bytes. State that still points into the entry shows.
func applyAndScribble(m *Machine, data []byte, full bool) (Applied, error) {
	data = bytes.Clone(data)
	applied, err := m.Apply(data, full)
	for i := range data {
		data[i] = 0xa5
	}
	return applied, err
}

func printApplied(a Applied) []string {
	var out []string
	for _, r := range a.Results {
		out = append(out, printResult(r))
	}
	for _, g := range a.Grants {
		line := fmt.Sprintf("  grant %s fence=%d start=%d lane=%s", g.ID, g.Fence, g.StartMs, nameOf(g.Lane))
		if g.Tag != 0 {
			line += fmt.Sprintf(" tag=%d", g.Tag)
		}
		out = append(out, line)
	}
	return out
}

func printResult(r *fsmpb.Result) string {
	out := strings.TrimPrefix(r.Code.String(), "CODE_")
	if r.Revision != 0 {
		out += fmt.Sprintf(" rev=%d", r.Revision)
	}
	if r.Previous != 0 {
		out += " previous=" + stateName(r.Previous)
	}
	if r.Outcome != 0 {
		out += " outcome=" + strings.ToLower(strings.TrimPrefix(r.Outcome.String(), "CANCEL_OUTCOME_"))
	}
	if r.Task != nil {
		out += fmt.Sprintf(" state=%s attempts=%d", stateName(r.Task.State), r.Task.Attempts)
	}
	if r.Field != "" {
		out += fmt.Sprintf(" field=%s detail=%q", r.Field, r.Detail)
		if r.Limit != "" {
			out += fmt.Sprintf(" limit=%q", r.Limit)
		}
	}
	if r.Number != 0 {
		out += fmt.Sprintf(" number=%d", r.Number)
	}
	if r.Repeated {
		out += " repeated"
	}
	if r.More {
		out += " more"
	}
	return out
}

func stateName(s fsmpb.State) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "STATE_"))
}

// look prints the result of a read.
func (s *script) look(line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "get":
		return printTask(s.m.Get("", rest))
	case "next":
		if due, ok := s.m.Next(); ok {
			return fmt.Sprintf("next %d", due)
		}
		return "next never"
	case "counts":
		var out []string
		for state, n := range s.m.Counts().ByState {
			if n != 0 {
				out = append(out, fmt.Sprintf("%s=%d", stateName(fsmpb.State(state)), n))
			}
		}
		return strings.Join(append(out, fmt.Sprintf("lanes=%d", s.m.Counts().Lanes)), " ")
	case "loads":
		loads := s.m.Loads()
		slices.SortFunc(loads, func(a, b task.LaneLoad) int {
			return strings.Compare(nameOf(a.Lane), nameOf(b.Lane))
		})
		return "loads" + printLoads(loads)
	case "changed":
		return "changed" + printLoads(s.changed)
	case "events":
		out := "events"
		for _, e := range s.events {
			out += "\n  " + printEvent(e)
		}
		s.events = nil
		return out
	case "queues":
		return fmt.Sprintf("queues %v", s.m.Queues(""))
	case "queue":
		return fmt.Sprintf("queue %s", printCounts(s.m.QueueCounts("", rest, s.now)))
	case "series":
		return printSeries(s.m.Get("", rest))
	case "wanting":
		return printWanting(s.m)
	case "rules":
		return fmt.Sprintf("rules %v", printRules(s.m.Rules()))
	case "attempt":
		a := arguments(rest)
		fence, _ := s.current(a)
		task, end, ok := s.m.Attempt("", a.id, fence)
		return fmt.Sprintf("attempt ok=%v lease_end=%d payload=%q", ok, end, task.GetSpec().GetPayload())
	}
	s.t.Fatalf("no verb %q", verb)
	return ""
}

var eventNames = []string{
	task.EventScheduled: "scheduled", task.EventMoved: "moved", task.EventFired: "fired",
	task.EventDelivered: "delivered", task.EventFailed: "failed", task.EventDead: "dead",
	task.EventCancelled: "cancelled", task.EventExpired: "expired", task.EventSkipped: "skipped",
}

func printEvent(e task.Event) string {
	out := fmt.Sprintf("%d %s %s queue=%s due=%d", e.AtMs, e.ID, eventNames[e.Type], e.Queue, e.DueMs)
	for _, l := range e.Labels {
		out += fmt.Sprintf(" label.%s=%s", l.Name, l.Value)
	}
	if e.Attempt != 0 {
		out += fmt.Sprintf(" attempt=%d late=%d webhook=%v", e.Attempt, e.LatenessMs, e.WebhookID != "")
	}
	if e.Node != "" {
		out += " node=" + e.Node
	}
	if e.Answer != "" {
		out += fmt.Sprintf(" answer=%q", e.Answer)
	}
	return out
}

func printLoads(loads []task.LaneLoad) string {
	out := ""
	for _, l := range loads {
		out += fmt.Sprintf(" %s ready=%d firing=%d", nameOf(l.Lane), l.Ready, l.Firing)
		if int(l.Waiting[task.DefaultPriority-1]) != l.Ready {
			out += fmt.Sprintf(" waiting=%v", l.Waiting)
		}
		if l.Retrying != 0 {
			out += fmt.Sprintf(" retrying=%d", l.Retrying)
		}
		switch {
		case l.FirstMs == task.BegunMs:
			out += " first=begun"
		case l.FirstMs != 0:
			out += fmt.Sprintf(" first=%d", l.FirstMs)
		}
		if l.Pulled {
			out += " pulled"
		}
		if l.Isolated {
			out += " isolated"
		}
	}
	return out
}

// printCounts prints the counts that are not zero, by their names in the schema.
func printCounts(c *fsmpb.QueueCounts) string {
	out := c.Queue
	fields := c.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if v := c.ProtoReflect().Get(f); f.Name() != "namespace" && f.Name() != "queue" && c.ProtoReflect().Has(f) {
			out += fmt.Sprintf(" %s=%v", f.Name(), v)
		}
	}
	return out
}

func printRules(rules []*fsmpb.QueueRule) string {
	var out []string
	for _, r := range rules {
		out = append(out, fmt.Sprintf("%s pushed=%v held=%v timeout=%d attempts=%d keep=%d,%d",
			r.Queue, r.Pushed, r.Held, r.AttemptTimeoutMs, r.MaxAttempts, r.KeepDoneMs, r.KeepDeadMs))
	}
	return strings.Join(out, "; ")
}

func printTask(t *fsmpb.Task) string {
	if t == nil {
		return "none"
	}
	out := fmt.Sprintf("%s %s fire_at=%d rev=%d occurrence=%d created=%d", t.Id, stateName(t.State), t.FireAtMs, t.Revision, t.Occurrence, t.CreatedAtMs)
	if t.Attempts != 0 || t.Fence != 0 {
		out += fmt.Sprintf(" attempts=%d fence=%d", t.Attempts, t.Fence)
	}
	if t.NextAttemptAtMs != 0 {
		out += fmt.Sprintf(" next_attempt=%d", t.NextAttemptAtMs)
	}
	if t.Leased {
		out += fmt.Sprintf(" leased until=%d", t.LeaseEndMs)
	}
	for _, p := range t.History {
		out += fmt.Sprintf(" [%d fence=%d %d-%d %s %q]", p.Attempt, p.Fence, p.StartedAtMs, p.EndedAtMs, p.Node, p.Error)
	}
	if t.LastError != "" {
		out += fmt.Sprintf(" last_error=%q", t.LastError)
	}
	if t.Outcome != 0 {
		out += " outcome=" + strings.ToLower(strings.TrimPrefix(t.Outcome.String(), "CANCEL_OUTCOME_"))
	}
	if len(t.Spec.Payload) > 0 {
		out += fmt.Sprintf(" payload=%q", t.Spec.Payload)
	}
	if t.Spec.ScheduledMs != 0 {
		out += fmt.Sprintf(" scheduled=%d", t.Spec.ScheduledMs)
	}
	if t.Spec.Group != "" {
		out += " group=" + t.Spec.Group
	}
	if t.Spec.Priority != 0 {
		out += fmt.Sprintf(" priority=%d", t.Spec.Priority)
	}
	if t.Spec.Target != nil {
		out += " url=" + t.Spec.Target.Url
	}
	for _, h := range t.Spec.GetTarget().GetHeaders() {
		out += fmt.Sprintf(" header.%s=%s", h.Name, h.Value)
	}
	for _, l := range t.Spec.Labels {
		out += fmt.Sprintf(" label.%s=%s", l.Name, l.Value)
	}
	return out
}

// parse parses one line: a command, or a read whose result is printed after the entry.
func (s *script) parse(line string) (*fsmpb.Command, string) {
	verb, rest, _ := strings.Cut(line, " ")
	a := arguments(rest)
	switch verb {
	case "now":
		s.now = a.int("")
		return nil, ""
	case "get", "next", "counts", "attempt", "loads", "changed", "events", "queue", "queues", "rules", "series", "wanting":
		return nil, line
	}
	c := &fsmpb.Command{Id: a.id, Answer: fsmpb.Answer_ANSWER_BRIEF}
	if v, ok := a.named["key"]; ok {
		c.Key = &fsmpb.Key{Hash: hashOf(v), Call: hashOf(a.named["call"])}
	}
	c.Condition = a.condition()
	if !setOp(c, verb, a, s.now) {
		s.t.Fatalf("no verb %q", verb)
	}
	if op := c.GetSettle(); op != nil {
		op.Fence, op.Occurrence = s.current(a)
	}
	bindInstants(s.m, c, a)
	if op := c.GetExtend(); op != nil {
		op.Fence, op.Occurrence = s.current(a)
	}
	return c, ""
}

// current returns the fence and occurrence that a settle names. They are the task's own before the block. fence=old
// and occurrence=old give different ones, and lease_of=occurrence,fence gives exactly these.
func (s *script) current(a args) (fence, occurrence uint64) {
	task := s.m.Get("", a.id)
	fence, occurrence = task.GetFence(), task.GetOccurrence()
	if a.named["fence"] == "old" {
		fence--
	}
	if a.named["occurrence"] == "old" {
		occurrence--
	}
	if list := a.numbers("lease_of"); len(list) == 2 {
		occurrence, fence = uint64(list[0]), uint64(list[1])
	}
	return fence, occurrence
}

func setOp(c *fsmpb.Command, verb string, a args, now int64) bool {
	switch verb {
	case "schedule":
		c.Op = &fsmpb.Command_Schedule{Schedule: a.schedule(now)}
	case "cancel":
		c.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
	case "patch":
		c.Op = &fsmpb.Command_Patch{Patch: a.patch(now)}
	case "touch":
		op := &fsmpb.Touch{ReceivedAtMs: now, DelayMs: a.optional("delay"), NoLaterThanMs: a.optional("no_later_than"), NoLaterThanAgeMs: a.optional("max_age")}
		op.Append, op.MaxPayload = []byte(a.named["append"]), a.intOr("most", 0)
		if v, ok := a.named["replace"]; ok {
			op.Payload = &fsmpb.Payload{Data: []byte(v)}
		}
		if _, ok := a.named["or_schedule"]; ok {
			op.OrSchedule = &fsmpb.Schedule{FireAtMs: now + a.int("or_schedule"), ReceivedAtMs: now, Spec: a.spec()}
		}
		c.Op = &fsmpb.Command_Touch{Touch: op}
	case "fire":
		c.Op = &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}
	case "advance":
		op := &fsmpb.Advance{ToMs: a.int("to"), Max: uint32(a.intOr("max", 100)), Policy: a.policy(now), Attempts: uint32(a.intOr("attempts", 0))}
		if v, ok := a.named["credit"]; ok {
			for _, credit := range strings.Split(v, ",") {
				op.Credits = append(op.Credits, creditOf(credit))
			}
		}
		c.Op = &fsmpb.Command_Advance{Advance: op}
	case "grant":
		c.Op = &fsmpb.Command_Grant{Grant: &fsmpb.Grant{Lane: laneNamed(a.named["lane"]), Max: uint32(a.intOr("max", 100)), Policy: a.policy(now), LeaseMs: a.intOr("lease", 0), Tag: a.uint("tag"), InOrder: a.named["in_order"] != "", Turn: uint32(a.uint("turn"))}}
	case "isolate":
		c.Op = &fsmpb.Command_Isolate{Isolate: &fsmpb.Isolate{Lane: laneNamed(a.named["lane"]), End: a.named["end"] != ""}}
	case "extend":
		c.Op = &fsmpb.Command_Extend{Extend: &fsmpb.Extend{LeaseMs: a.int("lease"), Queue: a.named["queue"]}}
	case "rule":
		c.Op = &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{Rules: []*fsmpb.QueueRule{a.rule()}}}
	case "replay":
		c.Op = &fsmpb.Command_Replay{Replay: &fsmpb.Replay{}}
	case "drop":
		c.Op = &fsmpb.Command_Drop{Drop: &fsmpb.Drop{}}
	case "erase":
		c.Op = &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}
	case "settle":
		c.Op = &fsmpb.Command_Settle{Settle: &fsmpb.Settle{
			RetryAtMs: a.intOr("retry_at", 0), Error: a.named["error"], Consumer: a.named["consumer"] != "",
			StartedAtMs: a.intOr("started", 0), Node: a.named["node"], Queue: a.named["queue"],
			Status: uint32(a.uint("status")), Answer: []byte(a.named["answer"]),
			Verdict: fsmpb.Verdict(fsmpb.Verdict_value["VERDICT_"+strings.ToUpper(a.named["verdict"])]),
		}}
	case "takeover":
		c.Op = &fsmpb.Command_Takeover{Takeover: &fsmpb.Takeover{Origin: a.uint("origin"), Policy: a.policy(now)}}
	default:
		return setSeriesOp(c, verb, a, now)
	}
	return true
}
