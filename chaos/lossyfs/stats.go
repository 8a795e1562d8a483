package lossyfs

import "sync/atomic"

// Stats counts the calls and losses of a disk since Mount.
type Stats struct {
	Writes       int64 // of file data
	WrittenBytes int64
	Syncs        int64 // successful syncs of files and folders
	FailedSyncs  int64
	FailedWrites int64 // for want of room, too

	PowerLosses  int64
	DroppedPages int64 // unsynced pages that were lost
	TornPages    int64 // unsynced pages that were half lost
	KeptPages    int64 // unsynced pages that survived
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

// counters count calls, which come concurrently.
type counters struct {
	writes, writtenBytes, syncs, failedSyncs, failedWrites atomic.Int64
}
