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
	"github.com/belfryhq/belfry/shard/dispatch"
)

// Shard is this node's replica of one shard, and the shard's leader while Raft has elected this node.
type Shard struct {
	cfg       Config
	machine   *fsm.Machine
	applier   *applier
	group     *raftgroup.Group
	incumbent *incumbent
	standing  *standing
	home      *home
	dev       *DevTime
	limits    Limits
	lack      atomic.Pointer[error] // see SetRoom
	clock     *clockGuard
	latencies *latencies
	attempts  *attempts
	snapshots snapshotter
	metrics   *metrics

	ctx      context.Context // ends the background workers
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	caughtUp atomic.Bool // this replica has held all that its leader had acknowledged, as far as noticed

	closeOnce sync.Once
	closeErr  error
}

// Open starts the replica from its storage. If the storage is empty and Config.Existing is not set, it starts a new
// group of Config.Replicas. Nothing runs after an error, and the caller must close the storage and the transport.
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
		home:      newHome(cfg.Preferred),
		ctx:       ctx,
		cancel:    cancel,
	}
	s.clock = newClockGuard(cfg.Clock, cfg.Timing.ClockJump, s.isAlone)
	s.dev = &DevTime{shard: s, clock: cfg.DevClock}
	s.snapshots = snapshotter{s}
	if s.limits = cfg.Limits; s.limits == nil {
		s.limits = alone{s}
	}
	s.applier = newApplier(s.machine)
	s.applier.keep(cfg.History, cfg.Logger)
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
	s.workers.Go(func() { s.snapshots.run(s.ctx) })
	return nil
}

// Do commits commands through the leader and returns one reply per command. The commands keep their order among each
// other; no order beyond the shard's log is promised. Do writes into the commands. Errors are *task.NotLeaderError,
// task.ErrOverloaded, task.ErrNoRoom and task.ErrNoMemory (nothing was proposed), task.ErrNotProposed and
// task.ErrUnknown. A *task.MovedError means that the task's slot is not open here.
func (s *Shard) Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	replies, _ := s.do(ctx, 0, cmds)
	return replies
}

// DoThen executes commands as Do does, but only in the leadership of a term, as Lead returned it, and calls then once,
// when no command is under way any more. Term 0 stands for any leadership. If ctx ends while the entry of a command is
// being committed, the end is after DoThen has returned. In another leadership the error is a *task.NotLeaderError.
func (s *Shard) DoThen(ctx context.Context, term uint64, cmds []*fsmpb.Command, then func()) []task.Reply {
	replies, ended := s.do(ctx, term, cmds)
	if ended == nil {
		then()
		return replies
	}
	go func() {
		<-ended
		then()
	}()
	return replies
}

// do is DoThen without then. ended is closed when no command is under way any more; nil: none is.
func (s *Shard) do(
	ctx context.Context, term uint64, cmds []*fsmpb.Command,
) (replies []task.Reply, ended chan struct{}) {
	if len(cmds) == 0 {
		return nil, nil
	}
	l, err := s.leadership(ctx)
	if err != nil {
		return refuse(len(cmds), err), nil
	}
	ctx, span := s.cfg.Tracer.Commit(ctx, s.cfg.ID, len(cmds))
	defer span.End()
	intake := l.proposer.intake
	reserved, err := l.admit(ctx, cmds)
	defer intake.release(reserved)
	if err == nil && term != 0 && term != l.term.Load() {
		err = s.notLeader()
	}
	if err != nil {
		span.Fail(err)
		return s.refuse(len(cmds), err), nil
	}
	var refused []task.Reply // to all commands, if some of them are not to be proposed
	if lack := s.lacking(); lack != nil || s.machine.IsMoving() {
		if cmds, refused = s.sift(cmds, lack); len(cmds) == 0 {
			return refused, nil
		}
	}
	c, err := s.prepare(cmds)
	if err == nil {
		err = intake.enqueue(c, reserved)
	}
	if err != nil {
		replies = s.refuse(len(cmds), err)
	} else {
		select {
		case <-c.done:
		case <-ctx.Done():
			span.Fail(context.Cause(ctx))
			intake.leave(ctx, c)
			ended = c.done
		}
		replies = movedIn(c.replies)
	}
	if refused == nil {
		return replies, ended
	}
	for i := range refused {
		if refused[i].Err == nil {
			refused[i], replies = replies[0], replies[1:]
		}
	}
	return refused, ended
}

// sift returns the commands to propose, and a reply to each command, with an error if the command is refused here: its
// slot is not open, so that it would only fill the log, or it needs room and the replicas lack some. All commands on a
// slot that is not open are refused, so that none overtakes another. A repeat of a remembered call needs no room and
// gets the first call's answer. The machine must hold all entries of earlier leaders.
func (s *Shard) sift(cmds []*fsmpb.Command, lack error) (rest []*fsmpb.Command, replies []task.Reply) {
	replies = make([]task.Reply, len(cmds))
	shut := make(map[uint32]error) // by slot
	lacking := 0
	for i, cmd := range cmds {
		if cmd.Id != "" {
			slot := task.Slot(cmd.Namespace, cmd.Id)
			if _, ok := shut[slot]; !ok {
				shut[slot] = s.shut(s.machine.SlotOf(cmd.Namespace, cmd.Id), false)
			}
			replies[i].Err = shut[slot]
		}
		if replies[i].Err == nil && lack != nil && fsm.Grows(cmd) && !s.machine.Remembers(cmd) {
			replies[i].Err = lack
			lacking++
		}
		if replies[i].Err == nil {
			rest = append(rest, cmd)
		}
	}
	if errors.Is(lack, task.ErrNoMemory) {
		s.metrics.noMemory.Add(float64(lacking))
	} else {
		s.metrics.noRoom.Add(float64(lacking))
	}
	return rest, replies
}

// prepare fills in the fields of commands that only the leader decides, and encodes the commands. Its error proves that
// none is proposed.
func (s *Shard) prepare(cmds []*fsmpb.Command) (*call, error) {
	now, _ := s.clock.now()
	rides := true
	for _, cmd := range cmds {
		op := cmd.GetSettle()
		if op != nil && !op.Pushed {
			s.completeSettle(cmd, op, now)
		}
		rides = rides && op.GetQueue() != "" && s.mayRide(op, cmd.Namespace, op.Queue, cmd.Id)
	}
	c, err := newCall(cmds)
	if err == nil && c.version > fsm.FirstVersion {
		err = s.cfg.Node.MayWrite(c.version)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", task.ErrNotProposed, err)
	}
	c.rides = rides
	return c, nil
}

// mayRide reports whether a settle may wait for other work to make an entry, because no other task can wait for the end
// of its attempt. The next occurrence of a schedule may wait for the last one.
func (s *Shard) mayRide(op *fsmpb.Settle, namespace, queue, id string) bool {
	_, _, repeats := task.SplitOccurrence(id)
	if repeats || op.Verdict != fsmpb.Verdict_VERDICT_DELIVERED || s.cfg.DevClock != nil {
		return false
	}
	policy := s.cfg.Policies.Policy(namespace, queue)
	return dispatch.LimitOf(policy).IsNone() && !task.LimitsGroups(policy)
}

// refuse returns the replies of a call that was not proposed, and counts overload.
func (s *Shard) refuse(commands int, err error) []task.Reply {
	if errors.Is(err, task.ErrOverloaded) {
		s.metrics.refused.Add(float64(commands))
	}
	return refuse(commands, err)
}

// leadership returns the running leadership. If Raft has just elected this node, it waits for the shard to notice.
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

// Close gives the leadership to a voter that is well, if there is one, and stops the replica. It lets running attempts
// end until ctx does, and closes the stores and the transport.
func (s *Shard) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

// attemptsEnd is the time that cancelled attempts have to return.
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

// leave gives the leadership away. A failure is no error: the other voters will elect a leader.
func (s *Shard) leave(ctx context.Context) {
	l := s.current()
	if l == nil || ctx.Err() != nil {
		return
	}
	to := l.bestPeer(s.group.Term())
	if to == "" {
		return
	}
	if err := l.transfer(ctx, to, s.cfg.Timing.Patience, true); err != nil && l.ctx.Err() == nil {
		s.cfg.Logger.Info("leadership not given away", "to", to, "err", err)
	}
}
