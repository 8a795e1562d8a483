package lossyfs

import "sync/atomic"

// Stats counts what a disk has done since it was mounted first.
type Stats struct {
	Writes       int64 // of file data
	WrittenBytes int64
	Syncs        int64 // of files and folders, that succeeded
	FailedSyncs  int64
	FailedWrites int64 // also for want of room

	PowerLosses  int64
	DroppedPages int64 // unsynced pages that were lost
	TornPages    int64 // that were half lost
	KeptPages    int64 // that were not
	DroppedNames int64 // unsynced creations, renames and removals that were lost
	KeptNames    int64
}

func (s *Stats) count(f fate) {
	switch f {
	case survived:
		s.KeptPages++
	case torn:
		s.TornPages++
	case dropped:
		s.DroppedPages++
	}
}

func (s *Stats) add(o Stats) {
	s.DroppedPages += o.DroppedPages
	s.TornPages += o.TornPages
	s.KeptPages += o.KeptPages
	s.DroppedNames += o.DroppedNames
	s.KeptNames += o.KeptNames
}

// counters are those of the calls, which come all at once.
type counters struct {
	writes, writtenBytes, syncs, failedSyncs, failedWrites atomic.Int64
}
