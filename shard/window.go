package shard

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
)

// unopened is the wait before the leader looks again at a window of which it knows no opening: its calendar is missing,
// or the window stays closed for years. A change of the calendar may open it.
const unopened = time.Hour

// opening returns the instant at which the window of a task opens. closed is false if an attempt may begin now. The
// task's own window takes precedence over that of its queue.
func (s *Shard) opening(t *fsmpb.Task, queue *fsmpb.QueuePolicy, now time.Time) (opens time.Time, closed bool) {
	m := t.GetSpec().GetWindow()
	if m == nil {
		m = queue.GetWindow()
	}
	if m == nil {
		return time.Time{}, false
	}
	var closing *calendar.Calendar
	if m.Calendar != "" {
		closing, _ = s.cfg.Policies.Calendar(t.Namespace, m.Calendar)
	}
	w, err := series.WindowOf(m, closing)
	if err != nil {
		s.cfg.Logger.Error("the window cannot be read, and its task waits", "task", t.Id, "queue", t.Spec.Queue, "err", err)
		return now.Add(unopened), true
	}
	opens, ok := w.Opens(now)
	if !ok {
		return now.Add(unopened), true
	}
	return opens, opens.After(now)
}

// held returns the settle of a grant whose window is closed until an instant. A renewed attempt may have begun on
// another node, and so counts.
func held(g task.Grant, opens time.Time) *fsmpb.Settle {
	op := &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_HELD, RetryAtMs: notBefore(opens)}
	if g.Renewed {
		op.Verdict = fsmpb.Verdict_VERDICT_RETRY
		op.Error = "the leader changed during the attempt, and the window has closed"
	}
	return op
}
