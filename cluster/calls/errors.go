package calls

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/shard"
)

// EncodeError encodes an error for another node. An error that the encoding cannot name becomes unknown, the safest
// kind.
func EncodeError(err error) *clusterpb.CallError {
	if err == nil {
		return nil
	}
	// The text may hold the name of a file, in any encoding.
	detail := strings.ToValidUTF8(err.Error(), "\uFFFD")
	e := &clusterpb.CallError{Kind: clusterpb.ErrorKind_ERROR_KIND_UNKNOWN, Detail: detail}
	var notLeader *task.NotLeaderError
	var field *task.FieldError
	var memory *task.MemoryError
	var full *task.QueuesFullError
	var moved *task.MovedError
	var exceeded *quota.Exceeded
	switch {
	case errors.As(err, &exceeded):
		e.Kind, e.Quota = clusterpb.ErrorKind_ERROR_KIND_QUOTA, &clusterpb.QuotaExceeded{
			Namespace: exceeded.Subject.Namespace, Key: exceeded.Subject.Key,
			Quota: uint32(exceeded.Quota), Limit: exceeded.Limit, Used: exceeded.Used,
			RetryAfterUs: exceeded.RetryAfter.Microseconds(),
		}
	case errors.As(err, &moved):
		e.Kind = clusterpb.ErrorKind_ERROR_KIND_MOVED
		e.Shard, e.Epoch, e.Moving = moved.Shard, moved.Epoch, moved.Moving
	case errors.Is(err, shard.ErrMoveLost):
		e.Kind = clusterpb.ErrorKind_ERROR_KIND_MOVE_LOST
	case errors.Is(err, shard.ErrMoveRefused):
		e.Kind = clusterpb.ErrorKind_ERROR_KIND_MOVE_REFUSED
	case errors.As(err, &notLeader):
		e.Kind, e.Leader = clusterpb.ErrorKind_ERROR_KIND_NOT_LEADER, notLeader.Leader
	case errors.Is(err, task.ErrOverloaded):
		e.Kind = clusterpb.ErrorKind_ERROR_KIND_OVERLOADED
	case errors.Is(err, task.ErrNoRoom):
		e.Kind = clusterpb.ErrorKind_ERROR_KIND_NO_ROOM
	case errors.As(err, &memory):
		e.Kind, e.Node, e.Limit = clusterpb.ErrorKind_ERROR_KIND_NO_MEMORY, memory.Node, memory.Limit
	case errors.As(err, &full):
		e.Kind, e.Limit = clusterpb.ErrorKind_ERROR_KIND_QUEUES_FULL, full.Limit
	case errors.Is(err, raftgroup.ErrUnfit):
		e.Kind = clusterpb.ErrorKind_ERROR_KIND_UNFIT
	case errors.Is(err, task.ErrNotProposed):
		e.Kind = clusterpb.ErrorKind_ERROR_KIND_NOT_PROPOSED
	case errors.As(err, &field):
		e.Kind, e.Field, e.Detail, e.Limit = clusterpb.ErrorKind_ERROR_KIND_INVALID, field.Field, field.Detail, field.Limit
	}
	return e
}

// DecodeError returns the error that another node encoded in its answer to a call about a shard; nil: none.
func DecodeError(e *clusterpb.CallError, id uint32, node string) error {
	if e == nil {
		return nil
	}
	kind := task.ErrUnknown
	switch e.Kind {
	case clusterpb.ErrorKind_ERROR_KIND_NOT_LEADER:
		return &task.NotLeaderError{Shard: id, Leader: strings.Clone(e.Leader)} // beliefs keep it, and not the message
	case clusterpb.ErrorKind_ERROR_KIND_MOVED:
		return &task.MovedError{Shard: e.Shard, Epoch: e.Epoch, Moving: e.Moving}
	case clusterpb.ErrorKind_ERROR_KIND_MOVE_LOST:
		kind = shard.ErrMoveLost
	case clusterpb.ErrorKind_ERROR_KIND_MOVE_REFUSED:
		kind = shard.ErrMoveRefused
	case clusterpb.ErrorKind_ERROR_KIND_INVALID:
		return &task.FieldError{Field: e.Field, Detail: e.Detail, Limit: e.Limit}
	case clusterpb.ErrorKind_ERROR_KIND_NO_MEMORY:
		return &task.MemoryError{Node: e.Node, Limit: e.Limit}
	case clusterpb.ErrorKind_ERROR_KIND_QUEUES_FULL:
		return &task.QueuesFullError{Limit: e.Limit}
	case clusterpb.ErrorKind_ERROR_KIND_QUOTA:
		return &quota.Exceeded{
			Subject: quota.Subject{Namespace: e.Quota.GetNamespace(), Key: e.Quota.GetKey()},
			Quota:   quota.Quota(e.Quota.GetQuota()), Limit: e.Quota.GetLimit(), Used: e.Quota.GetUsed(),
			RetryAfter: time.Duration(e.Quota.GetRetryAfterUs()) * time.Microsecond,
		}
	case clusterpb.ErrorKind_ERROR_KIND_OVERLOADED:
		kind = task.ErrOverloaded
	case clusterpb.ErrorKind_ERROR_KIND_NO_ROOM:
		kind = task.ErrNoRoom
	case clusterpb.ErrorKind_ERROR_KIND_NOT_PROPOSED:
		kind = task.ErrNotProposed
	case clusterpb.ErrorKind_ERROR_KIND_UNFIT:
		kind = raftgroup.ErrUnfit
	}
	return remoteError{kind: kind, node: node, detail: e.Detail}
}

// remoteError is an error from another node.
type remoteError struct {
	kind   error
	node   string
	detail string
}

func (e remoteError) Error() string { return fmt.Sprintf("node %s: %s", e.node, e.detail) }
func (e remoteError) Unwrap() error { return e.kind }

// notSent is the error of a call that has certainly not left this node.
func notSent(node string, cause error) error {
	return fmt.Errorf("%w: not sent to node %s: %w", task.ErrNotProposed, node, cause)
}

// unanswered is the error of a call that was sent and not answered.
func unanswered(node string, cause error) error {
	return fmt.Errorf("%w: node %s did not answer: %w", task.ErrUnknown, node, cause)
}
