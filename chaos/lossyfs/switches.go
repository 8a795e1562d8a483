package lossyfs

import (
	"sync"
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
