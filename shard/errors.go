package shard

import (
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// errEnded is why a leadership ends by itself.
var errEnded = errors.New("the leadership is over")

// neverTaken reports whether an error of a proposal proves that no log has seen the entry.
func neverTaken(err error) bool {
	return errors.Is(err, raftgroup.ErrRefused) || errors.Is(err, raftgroup.ErrNotLeader)
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
