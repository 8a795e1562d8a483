package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Shard is this node's replica of one shard, and its leader whenever Raft says so.
type Shard struct {
	cfg       Config
	machine   *fsm.Machine
	applier   *applier
	stores    Stores
	raft      *raft.Raft
	contacts  *contacts
	pacer     *pacer
	watch     *watch
	tuning    *tuning
	standing  *standing
	lack      atomic.Pointer[error] // see SetRoom
	clock     *clockGuard
	latencies *latencies
	attempts  *attempts
	futures   *futures
	metrics   *metrics

	ctx      context.Context // of the background workers
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	raftDown chan struct{} // closed when Raft has stopped
	caughtUp chan struct{} // closed when this replica first held what its leader had acknowledged

	opened    atomic.Bool // Raft runs
	stopping  atomic.Bool // Raft is being shut down
	closeOnce sync.Once
	closeErr  error
	fatalOnce sync.Once
}

// Open starts the replica: from its disk, or, if there is nothing and Config.Existing is not set, as a new group of
// Config.Replicas. On an error nothing is left running; the transport is the caller's to close then.
func Open(cfg Config) (*Shard, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Shard{
		cfg:       cfg,
		machine:   fsm.New(cfg.ID),
		contacts:  newContacts(),
		pacer:     newPacer(cfg.Timing.Beat / 2),
		futures:   newFutures(),
		latencies: newLatencies(),
		attempts:  newAttempts(),
		standing:  newStanding(),
		ctx:       ctx,
		cancel:    cancel,
		raftDown:  make(chan struct{}),
		caughtUp:  make(chan struct{}),
	}
	s.clock = newClockGuard(cfg.Clock, cfg.Timing.ClockJump, s.isAlone)
	s.applier = newApplier(s.machine, cfg.SnapshotLog, s.fatal)
	s.applier.pace, s.applier.tail = pace{ctx, s.snapshotPressure, cfg.snapshotPath}, newTail(cfg.SnapshotTail)
	s.watch = newWatch(s)
	s.tuning = newTuning(cfg)
	s.metrics = newMetrics(s, cfg.Registerer)
	if err := s.open(); err != nil {
		cancel()
		return nil, fmt.Errorf("shard %d: %w", cfg.ID, err)
	}
	return s, nil
}

func (s *Shard) open() error {
	if err := s.metrics.register(); err != nil {
		return err
	}
	if err := s.openRaft(); err != nil {
		s.metrics.unregister()
		return err
	}
	s.opened.Store(true)
	s.workers.Go(s.watch.listen)
	s.workers.Go(s.watch.run)
	s.workers.Go(func() { s.snapshotter(s.ctx) })
	s.workers.Go(func() { s.awaitCaughtUp(s.ctx) })
	s.workers.Go(func() { s.endHeadStart(s.ctx) })
	s.observeLeaders()
	return nil
}

// Do has the leader commit commands, and answers each. They keep their order, and no other order is promised beyond the
// shard's log. Do writes into the commands. Errors are *task.NotLeaderError, task.ErrOverloaded, task.ErrNoRoom and
// task.ErrNoMemory (nothing was proposed), task.ErrNotProposed and task.ErrUnknown.
func (s *Shard) Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	if lack := s.lacking(); lack != nil {
		return s.doInPlace(ctx, cmds, lack)
	}
	return s.do(ctx, cmds)
}

func (s *Shard) do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	if len(cmds) == 0 {
		return nil
	}
	l, err := s.leadership(ctx)
	if err != nil {
		return refuse(len(cmds), err)
	}
	intake := l.proposer.intake
	reserved, err := l.admit(ctx, cmds)
	defer intake.release(reserved)
	if err != nil {
		return s.refuse(len(cmds), err)
	}
	now, _ := s.clock.now()
	for _, cmd := range cmds {
		s.complete(cmd, now)
	}
	c, err := newCall(cmds)
	if err != nil {
		return s.refuse(len(cmds), fmt.Errorf("%w: %w", task.ErrNotProposed, err))
	}
	if err := intake.enqueue(c, reserved); err != nil {
		return s.refuse(len(cmds), err)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		intake.leave(ctx, c)
	}
	return c.replies
}

// refuse is the answer to so many commands, of which none was proposed.
func (s *Shard) refuse(commands int, err error) []task.Reply {
	if errors.Is(err, task.ErrOverloaded) {
		s.metrics.refused.Add(float64(commands))
	}
	return refuse(commands, err)
}

// leadership returns the running one. If Raft has just made this node leader it waits for the shard to notice.
func (s *Shard) leadership(ctx context.Context) (*leadership, error) {
	for {
		l, changed := s.watch.get()
		if l != nil {
			return l, nil
		}
		if s.raft.State() != raft.Leader {
			return nil, s.notLeader()
		}
		select {
		case <-changed:
		case <-s.raftDown:
			return nil, s.notLeader()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", task.ErrNotProposed, context.Cause(ctx))
		}
	}
}

// current returns the running leadership, nil if there is none.
func (s *Shard) current() *leadership {
	l, _ := s.watch.get()
	return l
}

// fatal reports what the group cannot survive, once, and stops it.
func (s *Shard) fatal(err error) {
	s.fatalOnce.Do(func() {
		s.cfg.Logger.Error("the shard cannot go on", "err", err)
		if s.opened.Load() {
			go s.shutDownRaft()
		}
		s.cfg.Fatal(err)
	})
}

// shutDownRaft stops Raft and closes the transport. It returns when both are done, also for a second caller.
func (s *Shard) shutDownRaft() {
	if s.stopping.CompareAndSwap(false, true) {
		s.settleLast()
		if !s.futures.bar(2 * s.cfg.Timing.Election) { // by then Raft has answered, or has found that it leads no more
			s.cfg.Logger.Info("raft has not answered everything when the replica stopped")
		}
		if err := s.raft.Shutdown().Error(); err != nil {
			s.cfg.Logger.Warn("raft did not shut down cleanly", "err", err)
		}
		close(s.raftDown)
	}
	<-s.raftDown
}

// lastEntry is how long the entry that is out may take when the replica stops.
const lastEntry = 500 * time.Millisecond

// settleLast lets the entry that is out end, and no other begin: Raft never answers one that it has committed but not
// applied when it is shut down.
func (s *Shard) settleLast() {
	l := s.current()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastEntry)
	defer cancel()
	if err := l.proposer.intake.flush(ctx); err != nil {
		s.cfg.Logger.Info("an entry was still out when the replica stopped", "err", err)
	}
}

func (s *Shard) isDown() bool {
	select {
	case <-s.raftDown:
		return true
	default:
		return false
	}
}

// Close gives the leadership away, if there is anybody well to take it, stops the replica, lets running attempts end
// until ctx does, and closes the stores and the transport.
func (s *Shard) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

// attemptsEnd is how long cancelled attempts have to return.
const attemptsEnd = time.Second

func (s *Shard) close(ctx context.Context) error {
	s.leave(ctx)
	s.cancel()
	s.shutDownRaft()
	s.workers.Wait()
	if s.attempts.wait(ctx) != nil {
		s.attempts.cancel()
		late, cancel := context.WithTimeout(context.Background(), attemptsEnd)
		defer cancel()
		if s.attempts.wait(late) != nil {
			s.cfg.Logger.Warn("attempts did not end", "running", s.attempts.count())
		}
	}
	s.attempts.cancel()
	s.metrics.unregister()
	if err := s.stores.Close(); err != nil {
		return fmt.Errorf("shard %d: %w", s.cfg.ID, err)
	}
	return nil
}

// leave gives the leadership away. That it fails is no error: the others will elect somebody.
func (s *Shard) leave(ctx context.Context) {
	l := s.current()
	if l == nil || ctx.Err() != nil {
		return
	}
	to := s.bestPeer(s.raft.CurrentTerm())
	if to == "" {
		return
	}
	if err := l.transfer(ctx, to, s.cfg.Timing.Patience, true); err != nil {
		s.cfg.Logger.Info("leadership not given away", "to", to, "err", err)
	}
}
