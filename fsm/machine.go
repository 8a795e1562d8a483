package fsm

import (
	"fmt"
	"sync"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// CommandVersion is the newest command version that this build writes and reads.
const CommandVersion = 1

// Machine is the state machine of one shard. One goroutine applies, any number read.
type Machine struct {
	shard uint32

	mu sync.RWMutex // guards all below
	*state
}

// New returns an empty machine.
func New(shard uint32) *Machine {
	return &Machine{shard: shard, state: newState()}
}

// Applied is what the commands of one entry did.
type Applied struct {
	Results []*fsmpb.Result // one a command, in order
	Grants  []task.Grant    // in the order in which they were made
	Lanes   []task.LaneLoad // the lanes that it changed, as they are after it; each once, with zeros if it is empty now
}

// Apply applies one entry, a marshalled fsmpb.Entry, which nobody may change any more: while it is applied its commands
// point into it. What is kept of them is copied. What it did is told only if full is set: only the leader has a use for
// it. An error means that the entry cannot be read, or is of a newer command version: nothing of
// it was applied, and the replica must stop rather than guess.
func (m *Machine) Apply(data []byte, full bool) (Applied, error) {
	entry := fsmpb.EntryFromVTPool()
	defer entry.ReturnToVTPool()
	if err := entry.UnmarshalVTUnsafe(data); err != nil {
		return Applied{}, fmt.Errorf("entry cannot be read: %w", err)
	}
	if err := checkEntry(entry); err != nil {
		return Applied{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passTime(entry.AtMs)
	m.full, m.grants = full, nil
	var applied Applied
	places := m.locate(entry.Commands)
	for i, c := range entry.Commands {
		if result := m.apply(c, places[i]); full {
			applied.Results = append(applied.Results, result)
		}
	}
	applied.Lanes = m.settleLanes(full)
	applied.Grants, m.grants = m.grants, nil
	return applied, nil
}

// setBack is by how many milliseconds at least an entry's instant lies before the highest one if the clocks were set
// back, and not just one leader's is a little behind that of the one before.
const setBack = 1000

// passTime brings the log's time to that of an entry. It stands while leaders whose clocks are a little apart follow
// each other. With clocks that were ahead and are set right it goes back: what counts from now must not count from an
// instant that is long to come.
func (s *state) passTime(atMs int64) {
	if atMs > s.now || s.now-atMs >= setBack {
		s.now = atMs
	}
}

func checkEntry(e *fsmpb.Entry) error {
	if e.Version > CommandVersion {
		return fmt.Errorf("entry has command version %d, and this build knows %d at most: upgrade this node",
			e.Version, CommandVersion)
	}
	for i, c := range e.Commands {
		if c.Op == nil {
			return fmt.Errorf("command %d of %d is of a kind unknown to this build: upgrade this node", i+1, len(e.Commands))
		}
	}
	return nil
}

// apply carries out one command.
func (m *Machine) apply(c *fsmpb.Command, at place) *fsmpb.Result {
	m.number++
	switch op := c.Op.(type) {
	case *fsmpb.Command_Advance:
		return m.advance(op.Advance)
	case *fsmpb.Command_Grant:
		return m.grantReady(op.Grant)
	case *fsmpb.Command_Settle:
		return m.settle(c, at, op.Settle)
	case *fsmpb.Command_Takeover:
		return m.takeover(op.Takeover)
	case *fsmpb.Command_Extend:
		return m.extend(c, at, op.Extend)
	case *fsmpb.Command_SetRules:
		return m.applyRules(op.SetRules)
	}
	return m.applyCall(c, at)
}

// applyCall carries out a user's call: a repeat of a remembered one changes nothing, a failed condition neither.
func (m *Machine) applyCall(c *fsmpb.Command, at place) *fsmpb.Result {
	if c.Id == "" {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "id", Detail: "is empty"}
	}
	h := m.findAt(at, c.Namespace, c.Id)
	if result := m.recall(h, c); result != nil {
		return result
	}
	if !m.holds(h, c.Condition) {
		return m.unmet(h, c)
	}
	result := m.change(h, c, at)
	if done := result.Code; done == fsmpb.Code_CODE_OK || done == fsmpb.Code_CODE_CREATED {
		h = m.findAt(at, c.Namespace, c.Id)
		result.Revision = m.revisionOf(h)
		m.remember(h, c.Key, result)
		m.answer(result, h, c.Answer)
	}
	return result
}

func (m *Machine) change(h handle, c *fsmpb.Command, at place) *fsmpb.Result {
	if op, ok := c.Op.(*fsmpb.Command_Schedule); ok {
		return m.schedule(h, c, at, op.Schedule)
	}
	if op, ok := c.Op.(*fsmpb.Command_Touch); ok {
		return m.touch(h, c, at, op.Touch)
	}
	if h == 0 {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	switch op := c.Op.(type) {
	case *fsmpb.Command_Cancel:
		return m.cancel(h, op.Cancel)
	case *fsmpb.Command_Patch:
		return m.patch(h, op.Patch)
	case *fsmpb.Command_FireNow:
		return m.fireNow(h)
	case *fsmpb.Command_Replay:
		return m.replay(h)
	case *fsmpb.Command_Drop:
		return m.dropDead(h)
	}
	panic(fmt.Sprintf("fsm: no code for %T", c.Op)) // checkEntry lets none through
}

// holds tells whether the condition of a call is met by the task h, 0 for none.
func (m *Machine) holds(h handle, c *fsmpb.Condition) bool {
	switch {
	case c == nil:
		return true
	case c.Absent && h != 0, c.Present && h == 0:
		return false
	case len(c.Revisions) == 0:
		return true
	}
	for _, revision := range c.Revisions {
		if h != 0 && revision == m.revisionOf(h) {
			return true
		}
	}
	return false
}

// maxBriefPayload is the largest payload, in bytes, that an unmet condition shows to a caller who wants brief answers:
// a few bytes of a batch's line must not bring a quarter of a megabyte each.
const maxBriefPayload = 4 << 10

// unmet answers a call whose condition the task h, 0 for none, does not meet. A caller who wanted no task to be there
// is shown the one that is.
func (m *Machine) unmet(h handle, c *fsmpb.Command) *fsmpb.Result {
	result := &fsmpb.Result{Code: fsmpb.Code_CODE_PRECONDITION_FAILED, Revision: m.revisionOf(h)}
	if !m.full || h == 0 || !c.Condition.Absent {
		return result
	}
	result.Task = m.view(h, true)
	if spec := result.Task.Spec; c.Answer == fsmpb.Answer_ANSWER_BRIEF && len(spec.Payload) > maxBriefPayload {
		spec.Payload, spec.PayloadIsBytes = nil, false
	}
	return result
}

// conflict answers a call that the task's state does not allow.
func (m *Machine) conflict(h handle) *fsmpb.Result {
	r := m.tasks.Read(h)
	task := &fsmpb.Task{State: fsmpb.State(r.state)}
	if r.progress != 0 {
		task.Attempts = m.progress.Read(r.progress).attempts
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_CONFLICT, Revision: m.revisionOf(h), Task: task}
}

// answer adds the task to a result, as far as its caller wants it. What comes and goes with attempts is left out: a
// repeat of the call could not tell it any more.
func (m *Machine) answer(result *fsmpb.Result, h handle, want fsmpb.Answer) {
	if !m.full || h == 0 || want == fsmpb.Answer_ANSWER_BRIEF {
		return
	}
	t := m.view(h, want == fsmpb.Answer_ANSWER_FULL)
	t.History, t.Leased, t.LeaseEndMs = nil, false, 0
	result.Task = t
}
