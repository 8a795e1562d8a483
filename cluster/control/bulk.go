package control

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The numbers of bulk operations in the state. One beyond maxRunningBulks is refused. The oldest ended operation
// beyond maxEndedBulks is forgotten.
const (
	maxRunningBulks = 16
	maxEndedBulks   = 100
)

// pageTasks is the largest number of tasks of a page.
const pageTasks = 500

// The states of bulk operations.
const (
	bulkRunning = clusterpb.OperationState_OPERATION_STATE_RUNNING
	bulkDone    = clusterpb.OperationState_OPERATION_STATE_DONE
	bulkStopped = clusterpb.OperationState_OPERATION_STATE_STOPPED
)

// applyBeginBulk adds an operation, unless it has begun before.
func applyBeginBulk(s *clusterpb.ControlState, begin *clusterpb.BeginBulk) error {
	op := begin.GetOperation()
	switch {
	case op.GetId() == "" || op.GetKind() == clusterpb.BulkKind_BULK_KIND_UNSPECIFIED:
		return errors.New("a bulk operation has an id and a kind")
	case FindBulk(s, op.Id) != nil:
		return nil
	case !isActive(s, op.Namespace):
		return fmt.Errorf("namespace %s does not exist, or is being deleted", op.Namespace)
	case len(runningBulks(s)) >= maxRunningBulks:
		return fmt.Errorf("%d bulk operations are under way, which is the most; wait until one has ended, or stop one",
			maxRunningBulks)
	}
	s.Bulks = append(slices.Clone(s.Bulks), op)
	return nil
}

func isActive(s *clusterpb.ControlState, namespace string) bool {
	found := Namespace(s, namespace)
	return found != nil && found.State == clusterpb.NamespaceState_NAMESPACE_STATE_ACTIVE
}

// applyPinBulk pins a page, or only moves the walk on if the page has no tasks.
func applyPinBulk(s *clusterpb.ControlState, page *clusterpb.PinBulk) error {
	op := FindBulk(s, page.GetId())
	switch {
	case op == nil || op.EndedMs > 0:
		return fmt.Errorf("bulk operation %s is not under way", page.GetId())
	case len(op.Pinned) > 0 || page.Number != op.Pages+1:
		return fmt.Errorf("page %d of bulk operation %s was pinned before", page.Number, page.Id)
	case len(page.Tasks) > pageTasks:
		return fmt.Errorf("a page has %d tasks, and at most %d", len(page.Tasks), pageTasks)
	}
	editBulk(s, op.Id, func(op *clusterpb.BulkOperation) {
		op.Pages, op.Pinned, op.Matched = page.Number, page.Tasks, op.Matched+uint64(len(page.Tasks))
		op.Slot, op.AfterId, op.Walked = page.Slot, page.AfterId, page.Walked
		settleBulk(op, page.AtMs)
	})
	return nil
}

// applyCountBulk counts the outcomes of the pinned page.
func applyCountBulk(s *clusterpb.ControlState, counted *clusterpb.CountBulk) error {
	op := FindBulk(s, counted.GetId())
	switch {
	case op == nil || op.EndedMs > 0:
		return fmt.Errorf("bulk operation %s is not under way", counted.GetId())
	case len(op.Pinned) == 0 || counted.Number != op.Pages:
		return fmt.Errorf("page %d of bulk operation %s is not pinned", counted.Number, counted.Id)
	case SumOutcomes(counted.Outcomes) != uint64(len(op.Pinned)):
		return fmt.Errorf("%d outcomes are no outcomes of %d tasks", SumOutcomes(counted.Outcomes), len(op.Pinned))
	}
	editBulk(s, op.Id, func(op *clusterpb.BulkOperation) {
		op.Pinned, op.Outcomes = nil, addOutcomes(op.Outcomes, counted.Outcomes)
		settleBulk(op, counted.AtMs)
	})
	return nil
}

// applyStopBulk ends an operation, or has it end with its pinned page.
func applyStopBulk(s *clusterpb.ControlState, by *clusterpb.StopBulk) error {
	if op := FindBulk(s, by.GetId()); op == nil || op.EndedMs > 0 || op.Stopping {
		return nil
	}
	editBulk(s, by.Id, func(op *clusterpb.BulkOperation) {
		op.Stopping, op.Detail = true, by.Detail
		settleBulk(op, by.AtMs)
	})
	return nil
}

// settleBulk ends an operation that has no pinned page and is to go no further.
func settleBulk(op *clusterpb.BulkOperation, atMs int64) {
	switch {
	case len(op.Pinned) > 0:
	case op.Walked:
		op.State, op.EndedMs, op.Stopping, op.Detail = bulkDone, max(atMs, 1), false, ""
	case op.Stopping:
		op.State, op.EndedMs, op.Stopping = bulkStopped, max(atMs, 1), false
	}
}

// stopBulksIn ends the operations in a namespace that is deleted. The outcomes of a pinned page are not counted: the
// page's tasks are being erased.
func stopBulksIn(s *clusterpb.ControlState, namespace string, atMs int64) {
	for _, op := range runningBulks(s) {
		if op.Namespace != namespace {
			continue
		}
		editBulk(s, op.Id, func(op *clusterpb.BulkOperation) {
			op.State, op.EndedMs, op.Stopping, op.Pinned = bulkStopped, max(atMs, 1), false, nil
			op.Detail = "the namespace is being deleted"
		})
	}
}

// forgetBulks removes the records of the operations in a namespace that exists no longer, so that a later namespace of
// the name does not show them.
func forgetBulks(s *clusterpb.ControlState, namespace string) {
	in := func(op *clusterpb.BulkOperation) bool { return op.Namespace == namespace }
	if slices.ContainsFunc(s.Bulks, in) {
		s.Bulks = slices.DeleteFunc(slices.Clone(s.Bulks), in)
	}
}

// editBulk replaces an operation of the state by an edited copy, and forgets the oldest ended ones beyond
// maxEndedBulks. The copy shares its parts with the operation, so the edit replaces them.
func editBulk(s *clusterpb.ControlState, id string, change func(*clusterpb.BulkOperation)) {
	at := slices.IndexFunc(s.Bulks, func(op *clusterpb.BulkOperation) bool { return op.Id == id })
	edited := proto.CloneOf(s.Bulks[at])
	change(edited)
	s.Bulks = slices.Clone(s.Bulks)
	s.Bulks[at] = edited
	ended := len(s.Bulks) - len(runningBulks(s))
	s.Bulks = slices.DeleteFunc(s.Bulks, func(op *clusterpb.BulkOperation) bool {
		if op.EndedMs == 0 || ended <= maxEndedBulks {
			return false
		}
		ended--
		return true
	})
}

// FindBulk returns a bulk operation of the state, or nil if there is none.
func FindBulk(s *clusterpb.ControlState, id string) *clusterpb.BulkOperation {
	at := slices.IndexFunc(s.GetBulks(), func(op *clusterpb.BulkOperation) bool { return op.Id == id })
	if at < 0 {
		return nil
	}
	return s.Bulks[at]
}

// runningBulks returns the operations under way, in the order of their beginning.
func runningBulks(s *clusterpb.ControlState) []*clusterpb.BulkOperation {
	var all []*clusterpb.BulkOperation
	for _, op := range s.GetBulks() {
		if op.EndedMs == 0 {
			all = append(all, op)
		}
	}
	return all
}

// SumOutcomes returns the number of tasks with an outcome.
func SumOutcomes(counts []*clusterpb.BulkCount) (tasks uint64) {
	for _, c := range counts {
		tasks += c.Tasks
	}
	return tasks
}

// addOutcomes returns the sum of two lists of counts, sorted by outcome. It changes neither.
func addOutcomes(a, b []*clusterpb.BulkCount) []*clusterpb.BulkCount {
	var sums []*clusterpb.BulkCount
	for outcome := range int32(len(clusterpb.BulkOutcome_name)) {
		sum := &clusterpb.BulkCount{Outcome: clusterpb.BulkOutcome(outcome)}
		for _, c := range slices.Concat(a, b) {
			if c.Outcome == sum.Outcome {
				sum.Tasks += c.Tasks
			}
		}
		if sum.Tasks > 0 {
			sums = append(sums, sum)
		}
	}
	return sums
}

// BulkStates returns the states of the tasks that an operation can change. They are the filter of an operation that
// names no states.
func BulkStates(op *clusterpb.BulkOperation) []fsmpb.State {
	if op.Schedules {
		return []fsmpb.State{fsmpb.State_STATE_REPEATING}
	}
	switch op.Kind {
	case clusterpb.BulkKind_BULK_KIND_CANCEL:
		return []fsmpb.State{
			fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_READY, fsmpb.State_STATE_FIRING, fsmpb.State_STATE_RETRYING,
		}
	case clusterpb.BulkKind_BULK_KIND_FIRE:
		return []fsmpb.State{fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING}
	case clusterpb.BulkKind_BULK_KIND_REPLAY, clusterpb.BulkKind_BULK_KIND_PURGE:
		return []fsmpb.State{fsmpb.State_STATE_DEAD}
	}
	return []fsmpb.State{fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_READY}
}

// BulkPercent returns the part of the walk that an operation has done, from 0 to 100. It is 100 only at the end.
func BulkPercent(op *clusterpb.BulkOperation, slots uint32) float64 {
	switch {
	case op.State == bulkDone:
		return 100
	case op.Walked:
		return 99
	}
	return min(100*float64(op.Slot)/float64(slots), 99)
}

// prepareBeginBulk sets the time of a bulk operation. One that has begun before, by its id, is the answer instead.
func prepareBeginBulk(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	op := c.Entry.GetBeginBulk().GetOperation()
	if op == nil {
		return nil, incomplete("an operation")
	}
	if begun := FindBulk(r.group.State(), op.Id); begun != nil {
		c.Entry = nil
		return &clusterpb.ControlChanged{Bulk: begun}, nil
	}
	op.BeganMs = r.group.cfg.Clock().UnixMilli()
	return nil, nil
}

// prepareStopBulk sets the time and the reason of a stop. An operation that has ended is the answer instead.
func prepareStopBulk(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	stop := c.Entry.GetStopBulk()
	if op := FindBulk(r.group.State(), stop.GetId()); op == nil || op.EndedMs > 0 {
		c.Entry = nil
		return &clusterpb.ControlChanged{Bulk: op}, nil
	}
	stop.AtMs, stop.Detail = r.group.cfg.Clock().UnixMilli(), "an operator has stopped it"
	return nil, nil
}

func answerBeginBulk(c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, begin *clusterpb.BeginBulk) {
	c.Bulk = FindBulk(after, begin.GetOperation().GetId())
}

func answerStopBulk(c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, stop *clusterpb.StopBulk) {
	c.Bulk = FindBulk(after, stop.GetId())
}
