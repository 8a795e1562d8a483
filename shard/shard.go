package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// Shard is this node's replica of one shard, and its leader whenever Raft says so.
type Shard struct {
	cfg       Config
	machine   *fsm.Machine
	applier   *applier
	group     *raftgroup.Group
	incumbent *incumbent
	standing  *standing
	lack      atomic.Pointer[error] // see SetRoom
	clock     *clockGuard
	latencies *latencies
	attempts  *attempts
	metrics   *metrics

	ctx      context.Context // of the background workers
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	caughtUp chan struct{} // closed when this replica first held what its leader had acknowledged

	closeOnce sync.Once
	closeErr  error
}

// Open starts the replica: from its storage, or, if there is nothing and Config.Existing is not set, as a new group of
// Config.Replicas. On an error nothing is left running; storage and transport are the caller's to close then.
func Open(cfg Config) (*Shard, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Shard{
		cfg:       cfg,
		machine:   fsm.New(cfg.ID),
		incumbent: newIncumbent(),
		latencies: newLatencies(),
		attempts:  newAttempts(),
		standing:  newStanding(),
		ctx:       ctx,
		cancel:    cancel,
		caughtUp:  make(chan struct{}),
	}
	s.clock = newClockGuard(cfg.Clock, cfg.Timing.ClockJump, s.isAlone)
	s.applier = newApplier(s.machine)
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
	if err := s.openGroup(); err != nil {
		s.metrics.unregister()
		return err
	}
	s.group.Lead(s.lead)
	s.workers.Go(func() { s.snapshotter(s.ctx) })
	s.workers.Go(func() { s.awaitCaughtUp(s.ctx) })
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
		l, changed := s.incumbent.get()
		if l != nil {
			return l, nil
		}
		if !s.group.Leads() {
			return nil, s.notLeader()
		}
		select {
		case <-changed:
		case <-s.group.Down():
			return nil, s.notLeader()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", task.ErrNotProposed, context.Cause(ctx))
		}
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
	err := s.group.Close()
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
	if err != nil {
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
	to := s.bestPeer(s.group.Term())
	if to == "" {
		return
	}
	if err := l.transfer(ctx, to, s.cfg.Timing.Patience, true); err != nil {
		s.cfg.Logger.Info("leadership not given away", "to", to, "err", err)
	}
}
