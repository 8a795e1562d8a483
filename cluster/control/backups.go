package control

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// applySetBackups replaces the record of the scheduled backups, unless the record has another revision by now.
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
