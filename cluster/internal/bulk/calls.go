package bulk

import (
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// command returns the call of an operation on a task, which belongs to the caller.
func command(op *clusterpb.BulkOperation, t *clusterpb.BulkTask) *fsmpb.Command {
	c := &fsmpb.Command{Namespace: op.Namespace, Id: t.Id, Key: &fsmpb.Key{
		Hash: xxhash.Sum64String(op.Id + "\x00" + t.Id), Call: xxhash.Sum64String(op.Id),
	}}
	switch op.Kind {
	case clusterpb.BulkKind_BULK_KIND_CANCEL:
		c.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
	case clusterpb.BulkKind_BULK_KIND_MOVE:
		to := op.ToMs
		if op.ByMs != 0 {
			to = max(t.FireAtMs+op.ByMs, 1)
		}
		c.Op = &fsmpb.Command_Patch{Patch: &fsmpb.Patch{FireAtMs: &to}}
	case clusterpb.BulkKind_BULK_KIND_PATCH:
		c.Op = &fsmpb.Command_Patch{Patch: proto.CloneOf(op.Patch)}
	case clusterpb.BulkKind_BULK_KIND_FIRE:
		c.Op = &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}
	case clusterpb.BulkKind_BULK_KIND_REPLAY:
		c.Op = &fsmpb.Command_Replay{Replay: &fsmpb.Replay{}}
	case clusterpb.BulkKind_BULK_KIND_PURGE:
		c.Op = &fsmpb.Command_Drop{Drop: &fsmpb.Drop{}}
	}
	if dependsOnTask(op) {
		c.Condition = &fsmpb.Condition{Revisions: []uint64{t.Revision}}
	}
	return c
}

// pinned returns the parts of a listed task that the operation needs.
func pinned(op *clusterpb.BulkOperation, t *fsmpb.Task) *clusterpb.BulkTask {
	p := &clusterpb.BulkTask{Id: t.Id}
	if dependsOnTask(op) {
		p.Revision, p.Refused = t.Revision, leadsAway(t.GetSpec().GetTarget(), op.Patch)
	}
	if op.ByMs != 0 {
		p.FireAtMs = t.FireAtMs
	}
	return p
}

// dependsOnTask reports whether the call on a task depends on the task. Such a call names the task's revision.
func dependsOnTask(op *clusterpb.BulkOperation) bool {
	return op.ByMs != 0 || op.Patch.GetTarget().GetUrl() != ""
}

// leadsAway reports whether a patch would lead stored credentials to another host, where the caller might read them.
func leadsAway(stored *fsmpb.Target, patch *fsmpb.Patch) bool {
	url := patch.GetTarget().GetUrl()
	isCredential := func(h *fsmpb.Header) bool { return task.IsCredential(h.Name) }
	if url == "" || !slices.ContainsFunc(stored.GetHeaders(), isCredential) {
		return false
	}
	from, err := task.Destination(stored.Url)
	if err != nil {
		return true
	}
	to, err := task.Destination(url)
	return err != nil || from != to
}

// successes holds the outcomes of calls that succeed, except for cancels.
var successes = map[clusterpb.BulkKind]clusterpb.BulkOutcome{
	clusterpb.BulkKind_BULK_KIND_MOVE:   clusterpb.BulkOutcome_BULK_OUTCOME_MOVED,
	clusterpb.BulkKind_BULK_KIND_PATCH:  clusterpb.BulkOutcome_BULK_OUTCOME_PATCHED,
	clusterpb.BulkKind_BULK_KIND_FIRE:   clusterpb.BulkOutcome_BULK_OUTCOME_FIRED,
	clusterpb.BulkKind_BULK_KIND_REPLAY: clusterpb.BulkOutcome_BULK_OUTCOME_REPLAYED,
	clusterpb.BulkKind_BULK_KIND_PURGE:  clusterpb.BulkOutcome_BULK_OUTCOME_PURGED,
}

// cancels holds the outcomes of cancels.
var cancels = map[fsmpb.CancelOutcome]clusterpb.BulkOutcome{
	fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED:     clusterpb.BulkOutcome_BULK_OUTCOME_CANCELLED,
	fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED:       clusterpb.BulkOutcome_BULK_OUTCOME_STOPPED,
	fsmpb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FIRED: clusterpb.BulkOutcome_BULK_OUTCOME_ALREADY_FIRED,
}

// outcomeOf returns the outcome of a call. repeated is set if the call may have been made before. The error says that
// the call must be made again.
func outcomeOf(kind clusterpb.BulkKind, reply task.Reply, repeated bool) (clusterpb.BulkOutcome, error) {
	none := clusterpb.BulkOutcome_BULK_OUTCOME_UNSPECIFIED
	if reply.Err != nil {
		return none, reply.Err
	}
	ofDead := kind == clusterpb.BulkKind_BULK_KIND_REPLAY || kind == clusterpb.BulkKind_BULK_KIND_PURGE
	outcome := none
	switch code := reply.Result.GetCode(); code {
	case fsmpb.Code_CODE_OK:
		if outcome = successes[kind]; kind == clusterpb.BulkKind_BULK_KIND_CANCEL {
			outcome = cancels[reply.Result.Outcome]
		}
	case fsmpb.Code_CODE_NOT_FOUND:
		outcome = clusterpb.BulkOutcome_BULK_OUTCOME_GONE
		if repeated && kind == clusterpb.BulkKind_BULK_KIND_PURGE {
			outcome = clusterpb.BulkOutcome_BULK_OUTCOME_PURGED
		}
	case fsmpb.Code_CODE_CONFLICT:
		outcome = clusterpb.BulkOutcome_BULK_OUTCOME_BEGUN
		if ofDead {
			outcome = clusterpb.BulkOutcome_BULK_OUTCOME_NOT_DEAD
		}
	case fsmpb.Code_CODE_INVALID, fsmpb.Code_CODE_KEY_REUSED:
		outcome = clusterpb.BulkOutcome_BULK_OUTCOME_REFUSED
	}
	if outcome == none {
		return none, fmt.Errorf("%w: a call on a task was answered with %v", task.ErrUnknown, reply.Result.GetCode())
	}
	return outcome, nil
}
