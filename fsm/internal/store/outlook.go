package store

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const (
	outlookStepMs = int64(task.OutlookStep / time.Millisecond)
	outlookSteps  = 30 // two minutes
)

// horizons are the spans of the field within of an Outlook. The wheel counts those of the first nearHorizons, because
// the steps of dues are too long for them.
var horizons = [...]time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

const (
	nearHorizons = 2
	// lookedAt is the number of tasks up to which a near horizon, and the rows of the wheel, are exact.
	lookedAt = 4096
	// longSlotMs is the span of a slot that has too many steps of dues to sum up.
	longSlotMs = 60 * dayMs
)

// Outlook counts the tasks that wait in the wheel. Its cost grows with the number of newly due tasks, and not with the
// number of all tasks or of queues.
func (s *Store) Outlook(nowMs int64) *fsmpb.Outlook {
	o := &fsmpb.Outlook{NowMs: nowMs, FirstMs: nowMs / outlookStepMs * outlookStepMs}
	counts := s.counted()
	o.Waiting = uint64(counts[fsmpb.State_STATE_SCHEDULED] + counts[fsmpb.State_STATE_RETRYING])
	rows, beside := s.wheel.Occupancy(lookedAt, s.mem.waitsForAttempt, func(firstMs, lastMs int64, counted int) int {
		rest := max(int(o.Waiting)-counted, 0)
		if int(o.Waiting) == s.wheel.Len() || lastMs-firstMs > longSlotMs {
			return rest
		}
		return min(rest, int(s.pendingBetween(firstMs, lastMs+1)))
	})
	o.Beside = uint64(beside)
	for i := range rows {
		row := &fsmpb.WheelRow{Level: uint32(rows[i].Level), FirstMs: rows[i].First, SlotMs: rows[i].Slot}
		for _, n := range rows[i].Nodes {
			row.Tasks = append(row.Tasks, uint64(n))
		}
		o.Rows = append(o.Rows, row)
	}
	o.Within = s.DueWithin(nowMs)
	for at := o.FirstMs; len(o.Steps) < outlookSteps; at += outlookStepMs {
		o.Steps = append(o.Steps, s.pendingBetween(at, at+outlookStepMs))
	}
	return o
}

// DueWithin returns the numbers of tasks that come due within each of the spans of an fsmpb.Outlook.
func (s *Store) DueWithin(nowMs int64) (within []uint64) {
	for i, span := range horizons {
		end := nowMs + span.Milliseconds()
		if i < nearHorizons {
			within = append(within, uint64(s.wheel.DueBy(end, lookedAt, s.mem.waitsForAttempt)))
		} else {
			within = append(within, s.pendingBetween(nowMs-dayMs, end))
		}
	}
	return within
}

// pendingBetween returns the number of tasks that wait for an attempt and come due in [fromMs, toMs), both rounded as
// dues.sum does.
func (s *Store) pendingBetween(fromMs, toMs int64) uint64 {
	n := s.pending.sum(fromMs, toMs)
	if s.Moves.coming != nil {
		n -= min(n, s.Moves.coming.pending.sum(fromMs, toMs))
	}
	return n
}
