package shard

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// SetRoom says whether there is room on the disks of the shard's replicas for more than there is. If not, its leader
// refuses commands that need room, and carries out all others: those are small, and let things go.
func (s *Shard) SetRoom(room bool) {
	if s.noRoom.Swap(!room) == room {
		s.cfg.Logger.Info("room on the replicas' disks", "enough", room)
	}
}

// doInPlace is Do without those commands that need room.
func (s *Shard) doInPlace(ctx context.Context, cmds []*fsmpb.Command) []fsm.Reply {
	if _, err := s.leadership(ctx); err != nil {
		return refuse(len(cmds), err) // whoever leads may have room
	}
	replies := refuse(len(cmds), fsm.ErrNoRoom)
	var rest []*fsmpb.Command
	var at []int
	for i, cmd := range cmds {
		if !fsm.Grows(cmd) {
			rest, at = append(rest, cmd), append(at, i)
		}
	}
	s.metrics.noRoom.Add(float64(len(cmds) - len(rest)))
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
