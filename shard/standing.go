package shard

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Standing is how fit a replica is to lead.
type Standing int

// The standings, the fittest first.
const (
	Willing   Standing = iota
	Reluctant          // it leads while nobody else can: its node has trouble
	Barred             // it does not serve as a leader, nor answer stale reads: its state is wrong
)

func (s Standing) String() string {
	switch s {
	case Willing:
		return "willing"
	case Reluctant:
		return "reluctant"
	default:
		return "barred"
	}
}

// standing holds a replica's present one.
type standing struct {
	mu      sync.Mutex
	is      Standing
	changed chan struct{} // closed and replaced when it changes
}

func newStanding() *standing { return &standing{changed: make(chan struct{})} }

func (s *standing) now() Standing {
	is, _ := s.watch()
	return is
}

// watch also returns a channel that is closed when it changes.
func (s *standing) watch() (Standing, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.is, s.changed
}

func (s *standing) set(is Standing) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is == is {
		return false
	}
	s.is = is
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

// SetStanding says how fit this replica is to lead. It follows as before, and its vote counts as before: the log is
// another thing than the state that was made of it. One that is not willing lets others be elected first, and gives a
// leadership that it has or gets to one of those that Config.MayLead allows.
func (s *Shard) SetStanding(to Standing) {
	if !s.standing.set(to) {
		return
	}
	s.cfg.Logger.Info("standing changed", "to", to)
}

// stepAsideEvery is how often a leader that is not willing looks for somebody else. After a transfer that failed it
// waits longer each time: attempts are held back during one.
const (
	stepAsideEvery = time.Second
	stepAsideLate  = 30 * time.Second
)

var errBarred = errors.New("this replica may not lead")

// stepAside gives the leadership away while this replica is not willing to have it. One that is barred and finds nobody
// ends it: the next one of this node waits, see clearToLead.
func (l *leadership) stepAside(ctx context.Context) {
	pause := stepAsideEvery
	for ctx.Err() == nil {
		is, changed := l.shard.standing.watch()
		if is == Willing {
			pause = stepAsideEvery
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if l.giveAway(ctx) {
			pause = min(2*pause, stepAsideLate)
		}
		if is == Barred {
			l.end(errBarred)
		}
		sleep(ctx, pause)
	}
}

// clearToLead waits while this replica is barred, and offers the leadership to others meanwhile. It returns false when
// the leadership has ended.
func (l *leadership) clearToLead(ctx context.Context) bool {
	for l.shard.standing.now() == Barred {
		l.shard.cfg.Logger.Warn("this replica may not lead, and was elected")
		l.giveAway(ctx)
		if !sleep(ctx, stepAsideEvery) {
			return false
		}
	}
	return ctx.Err() == nil
}
