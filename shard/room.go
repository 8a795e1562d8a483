package shard

import "fmt"

// SetRoom sets the resource that the shard's replicas lack to grow: task.ErrNoRoom, a task.ErrNoMemory, or nil for
// none. The leader refuses commands that need room with that error. It carries out all others, which are small and free
// room.
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

// lacking returns the last error given to SetRoom.
func (s *Shard) lacking() error {
	if lack := s.lack.Load(); lack != nil {
		return *lack
	}
	return nil
}

// checkSnapshotRoom returns an error if the disk has no room for a snapshot. A snapshot that fills the disk would end
// the process, since Raft could not write the log any more. The log stays as long as it is.
func (s *Shard) checkSnapshotRoom() error {
	size := s.machine.Counts().Bytes
	if room := s.cfg.SnapshotRoom; room != nil && !room(size) {
		return fmt.Errorf("no room on the disk for a snapshot of about %d MiB", size>>20+1)
	}
	return nil
}

// Memory returns the memory of the replica's machine in bytes: see fsm.Counts.
func (s *Shard) Memory() (held, free, coming int64) {
	c := s.machine.Counts()
	return c.Bytes, c.Free, c.Coming
}
