package control

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// SetBackups replaces the record of the scheduled backups, and waits until the entry is committed. It changes nothing,
// and returns false, if the record has another revision by now. The error is a *BehindError if a node cannot read the
// entry, and a *task.NotLeaderError on a node that is not the leader.
func (g *Group) SetBackups(ctx context.Context, b *clusterpb.Backups) (changed bool, err error) {
	answer, err := g.propose(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetBackups{SetBackups: &clusterpb.SetBackups{Backups: b}},
	})
	if err != nil {
		return false, err
	}
	change, _ := answer.(Change) // every other answer is an error, returned above
	return !change.Conflict, nil
}

func applySetBackups(s *clusterpb.ControlState, set *clusterpb.SetBackups) error {
	b := set.GetBackups()
	switch {
	case b == nil:
		return errors.New("the record of the backups is missing")
	case b.Revision != s.Backups.GetRevision():
		return errConflict
	}
	next := proto.CloneOf(b)
	next.Revision++
	s.Backups = next
	return nil
}
