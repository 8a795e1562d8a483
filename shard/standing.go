package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
)

// Standing is how fit a replica is to lead.
type Standing int

// The standings, the fittest first.
const (
	Willing   Standing = iota
	Reluctant          // leads only while no other replica can: its node has trouble
	Barred             // neither serves as a leader nor answers stale reads: its state is wrong
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

// standing holds a replica's present Standing.
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

// watch returns the standing and a channel that is closed when it changes.
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

// SetStanding sets the fitness of this replica to lead. The replica follows and votes as before, because its log may be
// right even if its state is wrong. A replica that is not willing lets others be elected first, and gives a leadership
// that it has or gets to a voter that Node.MayLead allows.
func (s *Shard) SetStanding(to Standing) {
	if !s.standing.set(to) {
		return
	}
	s.cfg.Logger.Info("standing changed", "to", to)
}

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

// stepAsideEvery is the pause between tries of an unwilling leader to find another one. The pause doubles up to
// stepAsideLate after each try, because a transfer holds attempts back.
const (
	stepAsideEvery = time.Second
	stepAsideLate  = 30 * time.Second
)

var errBarred = errors.New("this replica may not lead")

// stepAside gives the leadership away while this replica is not willing. A barred replica ends its leadership even if
// it finds no other leader. This node's next leadership then waits in clearToLead.
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
		wait.For(ctx, pause)
	}
}

// clearToLead waits while this replica is barred, and offers the leadership to others meanwhile. It returns false if
// the leadership ends first.
func (l *leadership) clearToLead(ctx context.Context) bool {
	for l.shard.standing.now() == Barred {
		l.shard.cfg.Logger.Warn("this replica may not lead, and was elected")
		l.giveAway(ctx)
		if !wait.For(ctx, stepAsideEvery) {
			return false
		}
	}
	return ctx.Err() == nil
}
