package bulk

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The numbers of operations in the record. An operation beyond MaxRunning is refused. The oldest ended operation
// beyond MaxEnded is forgotten.
const (
	MaxRunning = 16
	MaxEnded   = 100
)

// PageTasks is the largest number of tasks of a page.
const PageTasks = 500

// The states of operations.
const (
	running = clusterpb.OperationState_OPERATION_STATE_RUNNING
	done    = clusterpb.OperationState_OPERATION_STATE_DONE
	stopped = clusterpb.OperationState_OPERATION_STATE_STOPPED
)

// Refusal is the error of an entry that the record does not allow.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Begin adds an operation, unless it has begun before. Begin, Pin, Count and Stop carry out an entry on a shallow copy
// of a state: they replace the list of operations and change no operation in place.
func Begin(s *clusterpb.ControlState, begin *clusterpb.BeginBulk) error {
	op := begin.GetOperation()
	switch {
	case op.GetId() == "" || op.GetKind() == clusterpb.BulkKind_BULK_KIND_UNSPECIFIED:
		return refuse("a bulk operation has an id and a kind")
	case Find(s, op.Id) != nil:
		return nil
	case !isActive(s, op.Namespace):
		return refuse("namespace %s does not exist, or is being deleted", op.Namespace)
	case len(Running(s)) >= MaxRunning:
		return refuse("%d bulk operations are under way, which is the most; wait until one has ended, or stop one",
			MaxRunning)
	}
	s.Bulks = append(slices.Clone(s.Bulks), op)
	return nil
}

func isActive(s *clusterpb.ControlState, namespace string) bool {
	found := tenancy.Find(s, namespace)
	return found != nil && found.State == clusterpb.NamespaceState_NAMESPACE_STATE_ACTIVE
}

// Pin pins a page, or only moves the walk on if the page has no tasks.
func Pin(s *clusterpb.ControlState, page *clusterpb.PinBulk) error {
	op := Find(s, page.GetId())
	switch {
	case op == nil || op.EndedMs > 0:
		return refuse("bulk operation %s is not under way", page.GetId())
	case len(op.Pinned) > 0 || page.Number != op.Pages+1:
		return refuse("page %d of bulk operation %s was pinned before", page.Number, page.Id)
	case len(page.Tasks) > PageTasks:
		return refuse("a page has %d tasks, and at most %d", len(page.Tasks), PageTasks)
	}
	edit(s, op.Id, func(op *clusterpb.BulkOperation) {
		op.Pages, op.Pinned, op.Matched = page.Number, page.Tasks, op.Matched+uint64(len(page.Tasks))
		op.Slot, op.AfterId, op.Walked = page.Slot, page.AfterId, page.Walked
		settle(op, page.AtMs)
	})
	return nil
}

// Count counts the outcomes of the pinned page.
func Count(s *clusterpb.ControlState, counted *clusterpb.CountBulk) error {
	op := Find(s, counted.GetId())
	switch {
	case op == nil || op.EndedMs > 0:
		return refuse("bulk operation %s is not under way", counted.GetId())
	case len(op.Pinned) == 0 || counted.Number != op.Pages:
		return refuse("page %d of bulk operation %s is not pinned", counted.Number, counted.Id)
	case Sum(counted.Outcomes) != uint64(len(op.Pinned)):
		return refuse("%d outcomes are no outcomes of %d tasks", Sum(counted.Outcomes), len(op.Pinned))
	}
	edit(s, op.Id, func(op *clusterpb.BulkOperation) {
		op.Pinned, op.Outcomes = nil, add(op.Outcomes, counted.Outcomes)
		settle(op, counted.AtMs)
	})
	return nil
}

// Stop ends an operation, or has it end with its pinned page.
func Stop(s *clusterpb.ControlState, by *clusterpb.StopBulk) error {
	if op := Find(s, by.GetId()); op == nil || op.EndedMs > 0 || op.Stopping {
		return nil
	}
	edit(s, by.Id, func(op *clusterpb.BulkOperation) {
		op.Stopping, op.Detail = true, by.Detail
		settle(op, by.AtMs)
	})
	return nil
}

// settle ends an operation that has no pinned page and is to go no further.
func settle(op *clusterpb.BulkOperation, atMs int64) {
	switch {
	case len(op.Pinned) > 0:
	case op.Walked:
		op.State, op.EndedMs, op.Stopping, op.Detail = done, max(atMs, 1), false, ""
	case op.Stopping:
		op.State, op.EndedMs, op.Stopping = stopped, max(atMs, 1), false
	}
}

// StopIn ends the operations in a namespace that is deleted. The outcomes of a pinned page are not counted: the page's
// tasks are being erased.
func StopIn(s *clusterpb.ControlState, namespace string, atMs int64) {
	for _, op := range Running(s) {
		if op.Namespace != namespace {
			continue
		}
		edit(s, op.Id, func(op *clusterpb.BulkOperation) {
			op.State, op.EndedMs, op.Stopping, op.Pinned = stopped, max(atMs, 1), false, nil
			op.Detail = "the namespace is being deleted"
		})
	}
}

// Forget removes the records of the operations in a namespace that exists no longer, so that a later namespace of the
// name does not show them.
func Forget(s *clusterpb.ControlState, namespace string) {
	in := func(op *clusterpb.BulkOperation) bool { return op.Namespace == namespace }
	if slices.ContainsFunc(s.Bulks, in) {
		s.Bulks = slices.DeleteFunc(slices.Clone(s.Bulks), in)
	}
}

// edit replaces an operation of the state by an edited copy, and forgets the oldest ended ones beyond MaxEnded. The
// copy shares its parts with the operation, so the edit replaces them.
func edit(s *clusterpb.ControlState, id string, change func(*clusterpb.BulkOperation)) {
	at := slices.IndexFunc(s.Bulks, func(op *clusterpb.BulkOperation) bool { return op.Id == id })
	edited := proto.CloneOf(s.Bulks[at])
	change(edited)
	s.Bulks = slices.Clone(s.Bulks)
	s.Bulks[at] = edited
	ended := len(s.Bulks) - len(Running(s))
	s.Bulks = slices.DeleteFunc(s.Bulks, func(op *clusterpb.BulkOperation) bool {
		if op.EndedMs == 0 || ended <= MaxEnded {
			return false
		}
		ended--
		return true
	})
}

// Find returns a bulk operation of the state, or nil if there is none.
func Find(s *clusterpb.ControlState, id string) *clusterpb.BulkOperation {
	at := slices.IndexFunc(s.GetBulks(), func(op *clusterpb.BulkOperation) bool { return op.Id == id })
	if at < 0 {
		return nil
	}
	return s.Bulks[at]
}

// Running returns the operations under way, in the order of their beginning.
func Running(s *clusterpb.ControlState) []*clusterpb.BulkOperation {
	var all []*clusterpb.BulkOperation
	for _, op := range s.GetBulks() {
		if op.EndedMs == 0 {
			all = append(all, op)
		}
	}
	return all
}

// Sum returns the number of tasks with an outcome.
func Sum(counts []*clusterpb.BulkCount) (tasks uint64) {
	for _, c := range counts {
		tasks += c.Tasks
	}
	return tasks
}

// add returns the sum of two lists of counts, sorted by outcome. It changes neither.
func add(a, b []*clusterpb.BulkCount) []*clusterpb.BulkCount {
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

// States returns the states of the tasks that a kind of operation can change. They are the filter of an operation that
// names no states.
func States(kind clusterpb.BulkKind) []fsmpb.State {
	switch kind {
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

// Percent returns the part of the walk that an operation has done, from 0 to 100. It is 100 only at the end.
func Percent(op *clusterpb.BulkOperation, slots uint32) float64 {
	switch {
	case op.State == done:
		return 100
	case op.Walked:
		return 99
	}
	return min(100*float64(op.Slot)/float64(slots), 99)
}
