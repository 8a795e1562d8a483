package shard

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/fsm/task"
)

// errEnded: the leadership was over before the entry was handed to Raft.
var errEnded = errors.New("the leadership is over")

// refusedForNow tells whether Raft turned an entry away before it took it, for a reason that passes.
func refusedForNow(err error) bool {
	return errors.Is(err, raft.ErrLeadershipTransferInProgress) || errors.Is(err, raft.ErrEnqueueTimeout)
}

// neverTaken tells whether an error of a proposal proves that no log has seen the entry.
func neverTaken(err error) bool {
	return refusedForNow(err) || errors.Is(err, raft.ErrNotLeader) || errors.Is(err, errEnded)
}

// proposalError says what an error of a proposal means to its caller. All but the few that come before the entry is
// written are ambiguous: a log that has it may yet prevail.
func (s *Shard) proposalError(err error) error {
	if neverTaken(err) {
		return s.notLeader()
	}
	return fmt.Errorf("%w: %w", task.ErrUnknown, err)
}

// notLeader names the leader as far as this replica knows it.
func (s *Shard) notLeader() error {
	leader, _ := s.Leader()
	return &task.NotLeaderError{Shard: s.cfg.ID, Leader: leader}
}
