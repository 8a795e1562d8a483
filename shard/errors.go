package shard

import (
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// errEnded is the cause of a leadership that ends without an error.
var errEnded = errors.New("the leadership is over")

// neverTaken reports whether an error of a proposal proves that no replica applies the entry.
func neverTaken(err error) bool {
	return errors.Is(err, raftgroup.ErrRefused) || errors.Is(err, raftgroup.ErrNotLeader) ||
		errors.Is(err, raftgroup.ErrReplaced)
}

// proposalError converts a proposal's error into the caller's error. Every error except the few that precede the write
// of the entry is ambiguous: a log that holds the entry may yet prevail.
func (s *Shard) proposalError(err error) error {
	if neverTaken(err) {
		return s.notLeader()
	}
	return fmt.Errorf("%w: %w", task.ErrUnknown, err)
}

// notLeader returns an error with the leader that this replica knows of.
func (s *Shard) notLeader() error {
	leader, _ := s.Leader()
	return &task.NotLeaderError{Shard: s.cfg.ID, Leader: leader}
}
