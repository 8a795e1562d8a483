package client

import (
	"encoding/json"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Schedule is a rule that repeats, with the task that it makes at each of its instants. The occurrences are tasks with
// the ids ID@1, ID@2, … and can be read, cancelled and replayed as any task.
type Schedule struct {
	ID     string
	Repeat Repeat

	Misfire       Misfire       // empty: MisfireLatest
	MisfireWindow time.Duration // occurrences missed by more than this are skipped; 0: no limit
	Overlap       Overlap       // empty: OverlapSkip
	Paused        bool          // the rule has no occurrences in a pause
	Note          string        // for people, 255 bytes at most

	Task Task // of each occurrence, without ID, FireAt, Delay and Jitter

	ScheduleStatus // set by the service in answers
}

// ScheduleStatus is the part of a schedule that the service sets.
type ScheduleStatus struct {
	Last    uint64    `json:"last"`              // number of the last occurrence; 0 before the first
	NextAt  time.Time `json:"next_at,omitzero"`  // of the next occurrence; zero: none is known
	Running []uint64  `json:"running"`           // numbers of the occurrences whose tasks are not finished
	Waiting []uint64  `json:"waiting"`           // numbers of the occurrences that begin after the running ones
	Started uint64    `json:"started"`           // occurrences that became a task
	Passed  uint64    `json:"passed"`            // occurrences that did not run
	Ended   bool      `json:"ended"`             // the rule has no further occurrence
	Problem string    `json:"problem,omitempty"` // why there are no occurrences: the calendar does not exist

	Revision  uint64    `json:"revision"` // changes with calls, and not with the occurrences of the rule
	Shard     uint32    `json:"shard"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	TZData    string    `json:"tz_data"` // release of the time zone database in the node
}

// Misfire selects the occurrences that still run of those that the service could not begin in time, such as during an
// outage.
type Misfire string

// The choices after an outage.
const (
	MisfireLatest Misfire = "latest" // the latest one stands for all of them
	MisfireAll    Misfire = "all"    // all, the last 1,000 at most
	MisfireSkip   Misfire = "skip"   // none
)

// Overlap is what happens to an occurrence that comes due while an earlier one runs.
type Overlap string

// The choices for an occurrence that comes due while an earlier one runs.
const (
	OverlapSkip           Overlap = "skip"            // it does not run
	OverlapQueueOne       Overlap = "queue_one"       // it waits for the end of the earlier one, unless another waits
	OverlapQueueAll       Overlap = "queue_all"       // it waits, unless 1,000 others do
	OverlapAllow          Overlap = "allow"           // it runs too, unless 1,000 others do
	OverlapCancelPrevious Overlap = "cancel_previous" // the earlier one is cancelled, and it begins after that
)

// scheduleSettings are the members of a schedule that a caller sets, except the id and the task.
type scheduleSettings struct {
	Repeat        Repeat  `json:"repeat"`
	Misfire       Misfire `json:"misfire,omitempty"`
	MisfireWindow span    `json:"misfire_window,omitempty"`
	Overlap       Overlap `json:"overlap,omitempty"`
	Paused        bool    `json:"paused"`
	Note          string  `json:"note,omitempty"`
}

func (s *Schedule) settings() scheduleSettings {
	return scheduleSettings{s.Repeat, s.Misfire, span(s.MisfireWindow), s.Overlap, s.Paused, s.Note}
}

// scheduleAnswer is a schedule in the service's answers, without its task.
type scheduleAnswer struct {
	ID string `json:"id"`
	scheduleSettings
	ScheduleStatus
}

// MarshalJSON writes a schedule in the form of the service, with the members that the service sets.
func (s Schedule) MarshalJSON() ([]byte, error) {
	return appendTaskTo(scheduleAnswer{s.ID, s.settings(), s.ScheduleStatus}, &s.Task)
}

// appendTaskTo returns v as a JSON object with a schedule's task as its last member.
func appendTaskTo(v any, t *Task) ([]byte, error) {
	task, err := appendTemplate(nil, t)
	if err != nil {
		return nil, err
	}
	return withMember(v, contract.Task, contract.Close(task, 0))
}

// UnmarshalJSON reads a schedule as the service writes it.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	var v struct {
		scheduleAnswer
		Task Task `json:"task"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*s = Schedule{
		ID: v.ID, Repeat: v.Repeat, Misfire: v.Misfire, MisfireWindow: time.Duration(v.MisfireWindow),
		Overlap: v.Overlap, Paused: v.Paused, Note: v.Note, Task: v.Task, ScheduleStatus: v.ScheduleStatus,
	}
	return nil
}

// SchedulePatch is a change to a schedule's settings. Zero fields leave the schedule's unchanged; Clear restores
// defaults.
type SchedulePatch struct {
	Repeat        *Repeat // zero fields leave the rule's
	Misfire       Misfire
	MisfireWindow time.Duration
	Overlap       Overlap
	Paused        *bool
	Note          string
	Task          *Task // zero fields leave the task's; headers and labels are merged, and an empty value removes one
	// Clear names fields to reset, with dots for fields of objects: "note", "repeat.end", "task.retry.max_attempts".
	Clear []string
}

// body returns the merge patch of RFC 7396.
func (p *SchedulePatch) body() ([]byte, error) {
	m, err := p.fields()
	if err != nil {
		return nil, err
	}
	task, ok := m["task"].(map[string]any)
	if !ok {
		return json.Marshal(m)
	}
	delete(m, "task")
	var payload json.RawMessage
	if p.Task != nil {
		payload = p.Task.Payload
	}
	text, err := encode(task, payload)
	if err != nil {
		return nil, err
	}
	return withMember(m, contract.Task, text)
}

// fields returns the patch without the task's payload.
func (p *SchedulePatch) fields() (map[string]any, error) {
	m := map[string]any{}
	if p.Repeat != nil {
		rule, err := p.Repeat.patch()
		if err != nil {
			return nil, err
		}
		m["repeat"] = rule
	}
	setText(m, "misfire", string(p.Misfire))
	setDuration(m, "misfire_window", p.MisfireWindow)
	setText(m, "overlap", string(p.Overlap))
	setText(m, "note", p.Note)
	if p.Paused != nil {
		m["paused"] = *p.Paused
	}
	if p.Task != nil {
		if err := p.Task.checkTemplate(); err != nil {
			return nil, err
		}
		task, err := p.Task.patch()
		if err != nil {
			return nil, err
		}
		setText(task, "queue", p.Task.Queue)
		m["task"] = task
	}
	return m, clearFields(m, p.Clear)
}

// patch returns the members of a rule that are given.
func (r Repeat) patch() (map[string]any, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	m := map[string]any{}
	return m, json.Unmarshal(text, &m)
}
