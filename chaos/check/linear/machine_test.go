package linear

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// ms converts milliseconds of a test's history to an instant.
func ms(n int64) history.Instant {
	return history.Instant(n+1_000_000) * history.Instant(time.Millisecond)
}

func body(op int64) uint64 { return uint64(op) + 1<<32 }

// machine is one task of a correct service, written as simply as possible, on a clock of milliseconds. It knows every
// field and shares no code with the model that it tests.
type machine struct {
	now    int64
	number uint64 // number of the last change
	task   *mtask
	keys   []mkey
}

type mtask struct {
	state    string
	rev      uint64
	born     uint64 // number of the schedule that made the occurrence
	fireAt   int64
	wrote    int64
	attempts int
	outcome  string
	fence    uint64
	running  bool // the current grant's attempt began
	renewed  bool // the current grant renews an earlier one, so it is not given back
	started  bool // an attempt of this occurrence began
	probed   bool // a probe of this occurrence failed
	lease    int64
	webhook  string
}

type mkey struct {
	op       int64
	schedule bool
	outcome  history.Outcome
	answer   history.Answer
}

// do performs a call, or repeats the answer of the call with the same key.
func (m *machine) do(c history.Call) (history.Outcome, history.Answer) {
	m.number++
	for _, k := range m.keys {
		if k.op == c.Op {
			a := k.answer
			if !k.schedule && a.State != "" { // the payload shown is the current one
				a.Wrote, a.Body = m.payload()
			}
			return k.outcome, a
		}
	}
	outcome, a := m.perform(c)
	if outcome == history.OK && c.Kind.Changes() && c.Ask.Fence == 0 {
		m.keys = append(m.keys, mkey{c.Op, c.Kind == history.Schedule, outcome, a})
		m.keys = m.keys[max(0, len(m.keys)-2):]
	}
	return outcome, a
}

func (m *machine) payload() (int64, uint64) {
	if m.task == nil || m.task.wrote == 0 {
		return 0, 0
	}
	return m.task.wrote, body(m.task.wrote)
}

func (m *machine) answer() history.Answer {
	t := m.task
	a := history.Answer{Revision: t.rev, State: t.state, FireAt: ms(t.fireAt), Attempts: t.attempts, Cancel: t.outcome}
	a.Wrote, a.Body = m.payload()
	return a
}

func refusal(status int) (history.Outcome, history.Answer) {
	return history.Failed, history.Answer{Status: status}
}

func (m *machine) conflict() (history.Outcome, history.Answer) {
	return history.Failed, history.Answer{Status: http.StatusConflict, State: m.task.state, Attempts: m.task.attempts}
}

func (m *machine) perform(c history.Call) (history.Outcome, history.Answer) {
	t := m.task
	switch {
	case c.Ask.IfAbsent && t != nil, c.Ask.IfRevision > 0 && (t == nil || t.rev != c.Ask.IfRevision):
		return refusal(http.StatusPreconditionFailed)
	case c.Kind == history.Schedule:
		return m.schedule(c)
	case c.Kind == history.Touch && c.Ask.OrSchedule && (t == nil || m.closed()):
		return m.schedule(c)
	case t == nil:
		return refusal(http.StatusNotFound)
	}
	switch c.Kind {
	case history.Get:
		return history.OK, m.answer()
	case history.Cancel:
		return m.cancel()
	case history.Fire:
		if t.state != "scheduled" && t.state != "ready" && t.state != "retrying" {
			return m.conflict()
		}
		if t.state == "scheduled" {
			t.fireAt = min(t.fireAt, m.now)
		}
		if t.state != "ready" {
			t.rev = m.number
		}
	case history.Patch, history.Touch:
		if m.closed() {
			return m.conflict()
		}
		t.state, t.fireAt, t.rev = "scheduled", m.due(c.Ask), m.number
		if c.Kind == history.Patch && c.Ask.Body != 0 {
			t.wrote = c.Op
		}
	default:
		return m.settle(c)
	}
	return history.OK, m.answer()
}

// closed reports whether an attempt of the occurrence began, or the occurrence ended.
func (m *machine) closed() bool {
	return m.task.state != "scheduled" && (m.task.state != "ready" || m.task.attempts > 0 || m.task.probed)
}

func (m *machine) due(a history.Ask) int64 {
	if a.FireAt != 0 {
		return int64(a.FireAt)/int64(time.Millisecond) - 1_000_000
	}
	return m.now + a.Delay.Milliseconds()
}

func (m *machine) schedule(c history.Call) (history.Outcome, history.Answer) {
	previous := ""
	if m.task != nil {
		previous = m.task.state
	}
	m.task = &mtask{state: "scheduled", rev: m.number, born: m.number, fireAt: m.due(c.Ask), wrote: c.Op}
	a := m.answer()
	a.Previous = previous
	return history.OK, a
}

func (m *machine) cancel() (history.Outcome, history.Answer) {
	t := m.task
	ended := func(outcome string) (history.Outcome, history.Answer) {
		return history.OK, history.Answer{Cancel: outcome}
	}
	switch {
	case t.outcome != "":
	case t.state == "delivered" || t.state == "dead":
		return ended("already_fired")
	case t.state == "firing":
		t.outcome, t.rev = "stopped", m.number
	case m.closed():
		t.outcome = "stopped"
		m.end("cancelled")
	default:
		t.outcome = "cancelled"
		m.end("cancelled")
	}
	return ended(t.outcome)
}

func (m *machine) end(state string) {
	m.task.state, m.task.rev = state, m.number
	if state != "dead" {
		m.task.wrote = 0
	}
}

func (m *machine) settle(c history.Call) (history.Outcome, history.Answer) {
	t := m.task
	mine := t.fence == c.Ask.Fence
	if c.Kind != history.Extend && c.Ask.Fence < t.born {
		return history.Failed, history.Answer{Status: http.StatusOK, Replaced: true}
	}
	switch {
	case mine && t.state == "delivered" && c.Kind == history.Ack:
	case !mine || t.state != "firing" || t.lease == 0:
		return refusal(http.StatusConflict)
	case c.Kind == history.Extend:
		t.lease, t.rev = m.now+c.Ask.Delay.Milliseconds(), m.number
	case c.Kind == history.Ack:
		m.end("delivered")
	case c.Kind == history.Release && t.outcome != "":
		t.attempts--
		m.end("cancelled")
	case t.outcome != "":
		m.end("cancelled")
	case c.Kind == history.Release:
		t.attempts--
		t.state, t.rev, t.fence, t.lease = "ready", m.number, 0, 0
	default:
		t.state, t.rev, t.lease = "retrying", m.number, 0
	}
	return history.OK, history.Answer{Status: http.StatusOK}
}

// moves returns the changes that the task may make by itself now.
func (m *machine) moves(pulled bool) []func() {
	t := m.task
	if t == nil {
		return nil
	}
	to := func(state string) func() {
		return func() { t.state, t.rev, t.lease = state, m.number, 0 }
	}
	end := func(state string) func() { return func() { m.end(state) } }
	grant := func() {
		t.state, t.rev, t.fence, t.running, t.renewed, t.lease = "firing", m.number, m.number, false, false, 0
		t.attempts++
		if t.webhook == "" {
			t.webhook = fmt.Sprint("msg_", m.number)
		}
		if pulled {
			t.lease = m.now + 30
		}
	}
	late := func() { m.end("delivered") }
	slow := t.started && t.attempts > 0 && !pulled // an attempt that was given up may be under way
	switch {
	case t.state == "scheduled" && m.now >= t.fireAt-40:
		return []func(){to("ready"), grant}
	case t.state == "ready":
		return []func(){grant}
	case t.state == "retrying":
		return slices.Concat([]func(){to("ready"), grant}, onlyIf(slow, late))
	case t.state == "dead", t.state == "cancelled" && t.outcome == "stopped":
		return onlyIf(slow, late)
	case t.state != "firing" || pulled && m.now < t.lease:
		return nil
	case t.outcome != "":
		return slices.Concat([]func(){end("cancelled")}, onlyIf(!pulled, func() { t.rev, t.fence = m.number, m.number }))
	}
	renew := func() { t.rev, t.fence, t.running, t.renewed = m.number, m.number, false, true }
	back := func() { t.attempts--; to("ready")() }
	probe := func() { t.attempts--; t.probed = true; to("retrying")() }
	return slices.Concat([]func(){to("ready"), grant, end("dead")}, onlyIf(!pulled, renew),
		onlyIf(!t.running && !t.renewed && !pulled, back), onlyIf(t.running && !t.renewed && !pulled, probe),
		onlyIf(!pulled && t.started, late, to("retrying")))
}

func onlyIf(on bool, moves ...func()) []func() {
	if on {
		return moves
	}
	return nil
}
