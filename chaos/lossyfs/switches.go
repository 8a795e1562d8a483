package lossyfs

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// settings are the current flaws of a disk.
type settings struct {
	failSync, failWrite syscall.Errno
	slowSync            time.Duration
	stalled             bool
}

// switches change the settings while calls are under way.
type switches struct {
	mu      sync.Mutex // guards the fields below
	now     settings
	changed chan struct{}       // closed at the next change of the settings
	syncs   map[*time.Time]bool // start times of the syncs under way
}

func newSwitches() *switches {
	return &switches{changed: make(chan struct{}), syncs: map[*time.Time]bool{}}
}

func (s *switches) set(edit func(*settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(&s.now)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *switches) get() (settings, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.changed
}

// sync waits as long as a sync takes, and returns its error. If off was closed meanwhile, ended is false.
func (s *switches) sync(off <-chan struct{}) (errno syscall.Errno, ended bool) {
	now, _ := s.get()
	if now.stalled || now.slowSync > 0 {
		defer s.note()()
		if !s.awaitTurn(off) {
			return 0, false
		}
		now, _ = s.get()
	}
	return now.failSync, true
}

// note notes that a sync is under way until ended is called.
func (s *switches) note() (ended func()) {
	began := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncs[&began] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.syncs, &began)
	}
}

// waited returns how long the oldest sync has been under way; 0: none is.
func (s *switches) waited() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for began := range s.syncs {
		longest = max(longest, time.Since(*began))
	}
	return longest
}

// awaitTurn waits while syncs stall, and for their delay. It returns false if off was closed meanwhile.
func (s *switches) awaitTurn(off <-chan struct{}) bool {
	began := time.Now()
	for {
		now, changed := s.get()
		left := now.slowSync - time.Since(began)
		if !now.stalled && (now.slowSync == 0 || left <= 0) {
			return true
		}
		var delay <-chan time.Time
		if !now.stalled {
			delay = time.After(left)
		}
		select {
		case <-off:
			return false
		case <-changed:
		case <-delay:
		}
	}
}

func (s *switches) write() syscall.Errno {
	now, _ := s.get()
	return now.failWrite
}

// room counts the pages that files take, up to a limit.
type room struct {
	mu    sync.Mutex // guards the fields below
	used  int64      // pages
	limit int64      // pages; negative: none
}

// take takes n pages and reports whether there was room for all of them. It takes none otherwise.
func (r *room) take(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit >= 0 && r.used+n > r.limit {
		return false
	}
	r.used += n
	return true
}

func (r *room) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
}

// leave leaves room for that many more bytes from now on. A negative number removes the limit.
func (r *room) leave(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = -1
	if bytes >= 0 {
		r.limit = r.used + bytes/pageSize
	}
}

// left returns the numbers of free and used pages. Without a limit, limited is false and free means nothing.
func (r *room) left() (free, used int64, limited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.limit-r.used, 0), r.used, r.limit >= 0
}

// empty forgets the used pages. The limit stays.
func (r *room) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = 0
}

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
