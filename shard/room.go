package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// SetRoom says what the shard's replicas lack that it would need to grow: task.ErrNoRoom, a task.ErrNoMemory, or nil,
// nothing. Its leader refuses commands that need room with that error, and carries out all others: those are small, and
// let things go.
func (s *Shard) SetRoom(lack error) {
	before := s.lacking()
	s.lack.Store(&lack)
	switch {
	case lack == nil && before != nil:
		s.cfg.Logger.Info("there is room for more at the replicas")
	case lack != nil && (before == nil || before.Error() != lack.Error()):
		s.cfg.Logger.Info("there is no room for more at the replicas", "lack", lack)
	}
}

// lacking is what SetRoom said last.
func (s *Shard) lacking() error {
	if lack := s.lack.Load(); lack != nil {
		return *lack
	}
	return nil
}

// doInPlace is Do without those commands that need room. A call that is remembered needs none: its repeat is answered
// as it was then. To know which are, this replica must have applied all that leaders before it committed.
func (s *Shard) doInPlace(ctx context.Context, cmds []*fsmpb.Command, lack error) []task.Reply {
	l, err := s.leadership(ctx)
	if err != nil {
		return refuse(len(cmds), err) // whoever leads may have room
	}
	reserved, err := l.admit(ctx, cmds)
	defer l.proposer.intake.release(reserved)
	if err != nil {
		return s.refuse(len(cmds), err)
	}
	replies := refuse(len(cmds), lack)
	var rest []*fsmpb.Command
	var at []int
	for i, cmd := range cmds {
		if !fsm.Grows(cmd) || s.machine.Remembers(cmd) {
			rest, at = append(rest, cmd), append(at, i)
		}
	}
	if refused := float64(len(cmds) - len(rest)); errors.Is(lack, task.ErrNoMemory) {
		s.metrics.noMemory.Add(refused)
	} else {
		s.metrics.noRoom.Add(refused)
	}
	for i, reply := range s.do(ctx, rest) {
		replies[at[i]] = reply
	}
	return replies
}

// checkSnapshotRoom: a snapshot that fills the disk would end the process, since the log could not be written any more.
// The log that it would have made superfluous stays.
func (s *Shard) checkSnapshotRoom() error {
	size := s.machine.Counts().Bytes
	if room := s.cfg.SnapshotRoom; room != nil && !room(size) {
		return fmt.Errorf("no room on the disk for a snapshot of about %d MiB", size>>20+1)
	}
	return nil
}

// Memory returns what the replica's machine holds, in bytes: see fsm.Counts.
func (s *Shard) Memory() (held, free, coming int64) {
	c := s.machine.Counts()
	return c.Bytes, c.Free, c.Coming
}
