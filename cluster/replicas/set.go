package replicas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/quotas"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup/copies"
	"github.com/belfryhq/belfry/shard"
)

// Control is this node's copy of the control group's state. *control.Replica implements it.
type Control interface {
	// Watch returns the state and a channel that is closed at the next change.
	Watch() (*clusterpb.ControlState, <-chan struct{})
	// IsCurrent reports whether a state is the present one, not one of a log that is read again after a restart.
	IsCurrent(state *clusterpb.ControlState) bool
}

// Files are the files of replicas on this node.
type Files interface {
	// Open opens a replica of a shard that the state places here.
	Open(state *clusterpb.ControlState, placed *clusterpb.Shard) (*shard.Shard, error)
	// Opened is called once for each opened replica, and again if it has failed.
	Opened(s *shard.Shard, placed *clusterpb.Shard) error
	// Held returns the shards that have files here.
	Held() []uint32
	// Joined returns the revision at which the replica of a shard joined whose files are here.
	Joined(shard uint32) uint64
	// IsOver reports whether a replica that joined at a revision is known to be removed by now, although a log that is
	// read again still shows it. Such a replica is not opened.
	IsOver(shard uint32, joined uint64) bool
	// Leave deletes the files of a replica that is closed and that the state no longer places here. It is called again
	// if it has failed.
	Leave(shard uint32) error
}

// Admission decides on commands. *tenants.Tenants implements it.
type Admission interface {
	// Admit returns the reason to refuse a command about a namespace that takes no new work.
	Admit(c *fsmpb.Command) error
}

// Config holds the neighbours of a Set.
type Config struct {
	Self      string // node id
	Control   Control
	Files     Files
	Leaders   *calls.Beliefs
	Moves     Moves          // reaches the other shard of a move
	Copies    *copies.Meter  // limits the tasks of moving slots that come here; nil: no limit
	Admission Admission      // nil: every command is admitted
	Quotas    *quotas.Quotas // of namespaces; nil: none
	Changed   func()         // called after a replica was opened or has failed to open
	Logger    *slog.Logger
}

// Set holds the replicas on this node, and answers calls for them.
type Set struct {
	cfg Config

	mu     sync.RWMutex
	shards map[uint32]*shard.Shard
	joined map[uint32]uint64 // revisions at which the running and the failed replicas joined
	failed map[uint32]error  // replicas that are placed here and failed to open
}

// New returns a Set without any replica.
func New(cfg Config) *Set {
	return &Set{
		cfg: cfg, shards: make(map[uint32]*shard.Shard), joined: make(map[uint32]uint64), failed: make(map[uint32]error),
	}
}

// Follow opens the replicas that the control group places here, and closes those that it has moved away, until ctx
// ends.
func (s *Set) Follow(ctx context.Context) {
	for {
		state, changed := s.cfg.Control.Watch()
		left := s.leave(ctx, state)
		s.openPlaced(ctx, state)
		s.prefer(state)
		var again <-chan time.Time
		if !left || s.lacksRoom() {
			again = time.After(OpenAgain)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// OpenAtOnce is the number of replicas that are opened at the same time. Each waits for its disk, and then reads its
// snapshot on one core. More of them would take memory, and cores from the running replicas.
const OpenAtOnce = 4

// OpenAgain is the pause before another attempt to open a replica that failed because the disk was full.
const OpenAgain = time.Second

// openPlaced opens the replicas that a state places here and that do not run yet.
func (s *Set) openPlaced(ctx context.Context, state *clusterpb.ControlState) {
	room := semaphore.NewWeighted(OpenAtOnce)
	var opening sync.WaitGroup
	defer opening.Wait()
	for _, placed := range state.Shards {
		here := slices.Contains(placed.Replicas, s.cfg.Self) && !s.cfg.Files.IsOver(placed.Id, placed.Joined[s.cfg.Self])
		if !here || s.isSettled(placed.Id) {
			continue
		}
		if room.Acquire(ctx, 1) != nil {
			return
		}
		opening.Go(func() {
			defer room.Release(1)
			s.open(state, placed)
			s.cfg.Changed()
		})
	}
}

// prefer tells the running replicas which node should lead their shards.
func (s *Set) prefer(state *clusterpb.ControlState) {
	for _, running := range s.All() {
		if placed := control.Shard(state, running.ID()); placed != nil {
			running.Prefer(placed.Preferred)
		}
	}
}

// isSettled reports whether a replica need not be opened: it runs, or failed for another reason than a full disk.
func (s *Set) isSettled(id uint32) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	err := s.failed[id]
	return (s.shards[id] != nil || err != nil) && !headroom.IsDiskFull(err)
}

// lacksRoom reports whether a replica is to be opened again, because the disk was full.
func (s *Set) lacksRoom() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, err := range s.failed {
		if headroom.IsDiskFull(err) {
			return true
		}
	}
	return false
}

// Broken returns the reasons why replicas placed here cannot be opened, by shard. It leaves out those that only wait
// for space on the disk.
func (s *Set) Broken() map[uint32]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	broken := make(map[uint32]string)
	for id, err := range s.failed {
		if !headroom.IsDiskFull(err) {
			broken[id] = err.Error()
		}
	}
	return broken
}

// open opens one replica. If the replica is open already, open only calls Opened again.
func (s *Set) open(state *clusterpb.ControlState, placed *clusterpb.Shard) {
	s.mu.RLock()
	opened, before := s.shards[placed.Id], s.failed[placed.Id]
	s.mu.RUnlock()
	var err error
	if opened == nil {
		opened, err = s.openFiles(state, placed)
	}
	if err == nil {
		err = s.cfg.Files.Opened(opened, placed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined[placed.Id] = placed.Joined[s.cfg.Self]
	if opened != nil {
		s.shards[placed.Id] = opened
	}
	switch {
	case err != nil:
		s.failed[placed.Id] = err
		if before == nil {
			s.cfg.Logger.Error("a replica placed here does not run", "shard", placed.Id, "err", err)
		}
	case before != nil:
		delete(s.failed, placed.Id)
		s.cfg.Logger.Info("there is room: the replica runs", "shard", placed.Id)
	}
}

// openFiles opens a replica. If the files here are of an earlier one, which was removed, it deletes them first.
func (s *Set) openFiles(state *clusterpb.ControlState, placed *clusterpb.Shard) (*shard.Shard, error) {
	removed := placed.Joined[s.cfg.Self] > s.cfg.Files.Joined(placed.Id) && !flawKeepsFiles()
	if removed && slices.Contains(s.cfg.Files.Held(), placed.Id) {
		if err := s.cfg.Files.Leave(placed.Id); err != nil {
			return nil, err
		}
	}
	return s.cfg.Files.Open(state, placed)
}

// Find returns a replica. The error is a *task.NotLeaderError, with the shard's believed leader, if this node has none.
func (s *Set) Find(id uint32) (*shard.Shard, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if found := s.shards[id]; found != nil {
		return found, nil
	}
	leader := s.cfg.Leaders.Leader(id)
	if leader == s.cfg.Self {
		leader = ""
	}
	return nil, &task.NotLeaderError{Shard: id, Leader: leader}
}

// HasJoined reports whether the replica of a shard here is the one that joined at a revision.
func (s *Set) HasJoined(id uint32, joined uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.shards[id] != nil && s.joined[id] == joined
}

// All returns the replicas that run here, by shard.
func (s *Set) All() []*shard.Shard {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*shard.Shard
	for _, one := range s.shards {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *shard.Shard) int { return int(a.ID()) - int(b.ID()) })
	return all
}

// Ready returns nil once each replica that a state places here has caught up, and until then an error about one that
// has not. A replica that is being copied here does not count.
func (s *Set) Ready(state *clusterpb.ControlState) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, placed := range state.Shards {
		if !slices.Contains(placed.Replicas, s.cfg.Self) || s.isArriving(placed) {
			continue
		}
		if err := s.failed[placed.Id]; err != nil {
			return fmt.Errorf("the replica of shard %d does not run: %w", placed.Id, err)
		}
		running := s.shards[placed.Id]
		if running == nil {
			return fmt.Errorf("the replica of shard %d is not open yet", placed.Id)
		}
		if !running.HasCaughtUp() {
			return fmt.Errorf("the replica of shard %d has not caught up yet", placed.Id)
		}
		if running.Silence() > leaderless {
			return fmt.Errorf("shard %d has no leader: a majority of its replicas does not answer", placed.Id)
		}
	}
	return nil
}

// leaderless is the time without a leader from which on a node would take no call for a shard. An election is over by
// then.
const leaderless = 5 * time.Second

// isArriving reports whether a replica here may be a copy on its way, which keeps no call from being answered. The
// shard's other replicas serve, and this node takes calls for them as before.
func (s *Set) isArriving(placed *clusterpb.Shard) bool {
	return len(placed.Target) > 0 && placed.Joined[s.cfg.Self] > 0
}

// Close closes all replicas side by side. Calls still find them, and are refused.
func (s *Set) Close(ctx context.Context) error {
	all := s.All()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, one := range all {
		closing.Go(func() { errs[i] = one.Close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}
