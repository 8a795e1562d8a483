package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// twoShards are two shards between which slots move. The test is the control group and the router.
type twoShards struct {
	t      *testing.T
	shards [2]*replicas
	moves  uint64

	mu    sync.Mutex
	owner [task.Slots]int // index in shards
}

func newTwoShards(t *testing.T, n int, tune func(*Config)) *twoShards {
	p := &twoShards{t: t}
	for i := range p.shards {
		p.shards[i] = newReplicas(t, n, func(cfg *Config) {
			cfg.ID, cfg.Router, cfg.Timing = uint32(i+1), p, LAN()
			if tune != nil {
				tune(cfg)
			}
		})
	}
	p.shards[1].sink = p.shards[0].sink
	for _, s := range p.shards {
		s.startAll().leader()
	}
	return p
}

func (p *twoShards) close() {
	for _, s := range p.shards {
		s.close()
	}
}

// Do commits commands where the slot map says, and again until no command finds its slot moving or its shard without a
// leader.
func (p *twoShards) Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	replies := make([]task.Reply, len(cmds))
	for i, c := range cmds {
		for {
			replies[i] = p.try(ctx, c)
			if err := replies[i].Err; err == nil || !errors.Is(err, task.ErrNotProposed) || ctx.Err() != nil {
				break
			}
			<-time.After(2 * time.Millisecond)
		}
	}
	return replies
}

func (p *twoShards) try(ctx context.Context, c *fsmpb.Command) task.Reply {
	p.mu.Lock()
	shard := p.shards[p.owner[task.Slot(c.Namespace, c.Id)]]
	p.mu.Unlock()
	return shard.leader().Do(ctx, []*fsmpb.Command{c})[0]
}

func (p *twoShards) must(c *fsmpb.Command) *fsmpb.Result {
	p.t.Helper()
	reply := p.Do(context.Background(), []*fsmpb.Command{c})[0]
	if reply.Err != nil {
		p.t.Fatal(reply.Err)
	}
	return reply.Result
}

// lowerHalf is the slots that the tests move.
var lowerHalf = []*fsmpb.SlotRange{{First: 0, End: task.Slots / 2}}

// step commits a command of a move, and repeats it while there is more to do.
func (p *twoShards) step(shard int, c *fsmpb.Command) error {
	for {
		reply := p.shards[shard].leader().Do(context.Background(), []*fsmpb.Command{c})[0]
		switch {
		case errors.Is(reply.Err, task.ErrNotProposed), errors.Is(reply.Err, task.ErrUnknown):
			<-time.After(5 * time.Millisecond)
		case reply.Err != nil:
			return reply.Err
		case !reply.Result.More:
			return StepError(reply.Result)
		}
	}
}

// pull lets the target's leader work until the slots are ready or the move is lost.
func (p *twoShards) pull(move uint64, from, to int) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		progress, err := p.shards[to].leader().PullSlots(ctx, PullSlots{
			Move: move, Ranges: []fsm.SlotRange{{First: 0, End: task.Slots / 2}},
			Read: func(ctx context.Context, r SlotsRequest) (SlotsBatch, error) {
				return p.shards[from].leader().ReadSlots(ctx, r)
			},
			Seal: func(context.Context) error { return p.step(from, sealOf(move, to)) },
		})
		cancel()
		switch {
		case progress.Ready:
			return nil
		case errors.Is(err, ErrMoveLost), errors.Is(err, ErrMoveRefused):
			return err
		case err != nil:
			<-time.After(5 * time.Millisecond)
		}
	}
}

func sealOf(move uint64, to int) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_SealSlots{SealSlots: &fsmpb.SealSlots{
		Move: move, Ranges: lowerHalf, To: uint32(to + 1), Epoch: move + 1,
	}}}
}

func abandonOf(move uint64, from int) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_AbandonSlots{AbandonSlots: &fsmpb.AbandonSlots{
		Move: move, Max: 4, Ranges: lowerHalf, From: uint32(from + 1), Epoch: move + 1,
	}}}
}

// move moves the lower half of the slots, and begins anew when the copy is lost. before is called before each step.
func (p *twoShards) move(from, to int, before func(step string)) {
	p.t.Helper()
	for p.moveOnce(from, to, before) != nil {
		p.t.Logf("move %d is given up", p.moves)
		before("unseal")
		unseal := &fsmpb.Command{Op: &fsmpb.Command_UnsealSlots{UnsealSlots: &fsmpb.UnsealSlots{
			Move: p.moves, Max: 4, Ranges: lowerHalf, To: uint32(to + 1), Epoch: p.moves + 1,
		}}}
		before("abandon")
		abandon := abandonOf(p.moves, from)
		assert.NoError(p.t, errors.Join(p.step(from, unseal), p.step(to, abandon)))
	}
}

func (p *twoShards) moveOnce(from, to int, before func(step string)) error {
	p.t.Helper()
	p.moves++
	before("expect")
	err := p.step(to, &fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{
		Move: p.moves, Ranges: lowerHalf, From: uint32(from + 1), Epoch: p.moves + 1, Fresh: p.moves == 1,
	}}})
	assert.NoError(p.t, err)
	before("pull")
	if err := p.pull(p.moves, from, to); err != nil {
		return err
	}
	before("decide")
	p.mu.Lock()
	for slot := range task.Slots / 2 {
		p.owner[slot] = to
	}
	p.mu.Unlock()
	before("open")
	open := &fsmpb.Command{Op: &fsmpb.Command_OpenSlots{OpenSlots: &fsmpb.OpenSlots{Move: p.moves, Max: 64}}}
	assert.NoError(p.t, p.step(to, open))
	before("drop")
	drop := &fsmpb.Command{Op: &fsmpb.Command_DropSlots{DropSlots: &fsmpb.DropSlots{Move: p.moves, Max: 64}}}
	assert.NoError(p.t, p.step(from, drop))
	before("end")
	return nil
}

func inLowerHalf(id string) bool { return task.Slot("", id) < task.Slots/2 }

// TestSlotsMoveUnderLoad moves slots to and fro while tasks are scheduled, cancelled and fired. Each task is delivered
// once, not early, and hardly late.
func TestSlotsMoveUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTwoShards(t, 3, nil)
		due, cancels := map[string]time.Time{}, map[string]fsmpb.CancelOutcome{}
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range 3000 {
				id, at := fmt.Sprint("task-", i), time.Now().Add(time.Duration(i%700)*time.Millisecond).Truncate(time.Millisecond)
				p.must(schedule(id, at))
				due[id] = at
				if i%10 == 9 {
					cancels[id] = p.must(cancelOf(id)).Outcome
				}
				<-time.After(time.Millisecond)
			}
		})
		<-time.After(500 * time.Millisecond)
		for i := range 6 {
			p.move(i%2, 1-i%2, func(string) {})
			<-time.After(200 * time.Millisecond)
		}
		writer.Wait()
		<-time.After(2 * time.Second)
		arrivals := map[string]int{}
		var worst time.Duration
		for _, a := range p.shards[0].sink.all() {
			arrivals[a.id]++
			if a.at.Before(due[a.id]) {
				t.Errorf("%s is early by %v", a.id, due[a.id].Sub(a.at))
			}
			worst = max(worst, a.at.Sub(due[a.id]))
		}
		for id := range due {
			least, most := 1, 1
			switch cancels[id] {
			case fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED:
				least, most = 0, 0
			case fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED: // the attempt was granted, and may not have called the sink yet
				least = 0
			}
			if n := arrivals[id]; n < least || n > most {
				t.Errorf("%s arrived %d times; its cancel: %v", id, n, cancels[id])
			}
		}
		if worst > 100*time.Millisecond {
			t.Errorf("a task was late by %v", worst)
		}
		t.Logf("late by at most %v", worst)
		for _, s := range p.shards {
			s.agree()
		}
	})
}

// TestRunningAttemptEndsAtTheTarget moves a task while its attempt runs. The attempt ends the task at the target, and is
// not repeated.
func TestRunningAttemptEndsAtTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, out := range []task.Outcome{{Delivered: true}, {Error: "503"}} {
			p := newTwoShards(t, 1, nil)
			p.shards[0].sink.respond = func(context.Context, task.Attempt) task.Outcome {
				<-time.After(3 * time.Second)
				return out
			}
			var ids []string
			for i := range 12 {
				ids = append(ids, fmt.Sprint("task-", i))
				p.must(schedule(ids[i], time.Now()))
			}
			<-time.After(time.Second)
			p.move(0, 1, func(string) {})
			<-time.After(2500 * time.Millisecond)
			want := fsmpb.State_STATE_DELIVERED
			if !out.Delivered {
				want = fsmpb.State_STATE_RETRYING
			}
			for _, id := range ids {
				n := p.shards[map[bool]int{true: 1, false: 0}[inLowerHalf(id)]].leader()
				v, err := n.Get(context.Background(), "", id, false)
				if err != nil || v.State != want || len(v.History) != 1 || len(p.shards[0].sink.of(id)) != 1 {
					t.Errorf("%s: %v, %v; %d arrivals", id, v, err, len(p.shards[0].sink.of(id)))
				}
			}
			p.close()
		}
	})
}

// TestMoveSurvivesLeaders kills the leader of the source or the target before each step of a move. The move ends all
// the same, and no task is lost or early.
func TestMoveSurvivesLeaders(t *testing.T) {
	for _, step := range []string{"expect", "pull", "decide", "open", "drop", "end"} {
		for who := range 2 {
			t.Run(fmt.Sprint(step, who), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { killBefore(t, step, who) })
			})
		}
	}
}

func killBefore(t *testing.T, step string, who int) {
	p := newTwoShards(t, 3, nil)
	due := map[string]time.Time{}
	for i := range 120 {
		id := fmt.Sprint("task-", i)
		due[id] = time.Now().Add(time.Duration(i) * 50 * time.Millisecond).Truncate(time.Millisecond)
		p.must(schedule(id, due[id]))
	}
	killed := false
	p.move(0, 1, func(at string) {
		if at == step && !killed {
			killed = true
			p.shards[who].kill(p.shards[who].leader().cfg.NodeID)
		}
	})
	<-time.After(20 * time.Second)
	for id, at := range due {
		arrivals := p.shards[0].sink.of(id)
		if len(arrivals) == 0 {
			t.Errorf("%s never arrived", id)
		}
		for _, a := range arrivals {
			if a.at.Before(at) {
				t.Errorf("%s is early by %v", id, at.Sub(a.at))
			}
		}
	}
	for id := range due {
		if v := p.shards[map[bool]int{true: 1, false: 0}[inLowerHalf(id)]].leader().state(t, id); v != fsmpb.State_STATE_DELIVERED {
			t.Errorf("%s is %v at its shard", id, v)
		}
	}
}

// TestCopyIsLostWithALeader changes a leader in the middle of the copy. The other leader notices, and the move begins
// anew.
func TestCopyIsLostWithALeader(t *testing.T) {
	for who := range 2 {
		synctest.Test(t, func(t *testing.T) {
			p := newTwoShards(t, 3, nil)
			for i := range 3000 {
				p.must(schedule(fmt.Sprint("task-", i), time.Now().Add(time.Hour)))
			}
			p.moves++
			err := p.step(1, &fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{
				Move: p.moves, Ranges: lowerHalf, From: 1, Epoch: 2, Fresh: true,
			}}})
			assert.NoError(t, err)
			reads := 0
			pull := PullSlots{
				Move: p.moves, Ranges: []fsm.SlotRange{{First: 0, End: task.Slots / 2}},
				Read: func(ctx context.Context, r SlotsRequest) (SlotsBatch, error) {
					if reads++; reads == 3 {
						p.shards[who].kill(p.shards[who].leader().cfg.NodeID)
					}
					return p.shards[0].leader().ReadSlots(ctx, r)
				},
				Seal: func(context.Context) error { return p.step(0, sealOf(p.moves, 1)) },
			}
			p.shards[1].eventually("the loss is noticed", func() bool {
				_, err := p.shards[1].leader().PullSlots(t.Context(), pull)
				return errors.Is(err, ErrMoveLost)
			})
			before := len(p.shards[0].leader().Slots())
			if before != 0 {
				t.Errorf("the source was sealed: %v", p.shards[0].leader().Slots())
			}
			assert.NoError(t, p.step(1, abandonOf(p.moves, 0)))
			p.move(0, 1, func(string) {})
			p.must(cancelOf("task-1"))
			if n := p.shards[0].leader().machine.Counts().Tasks + p.shards[1].leader().machine.Counts().Tasks; n != 3000 {
				t.Errorf("%d tasks after the move", n)
			}
		})
	}
}

// TestReadsOfMovedSlots asks both shards at each step of a move.
func TestReadsOfMovedSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTwoShards(t, 1, nil)
		id, other := idWhere(true), idWhere(false)
		p.must(schedule(id, time.Now().Add(time.Hour)))
		source, target := p.shards[0].leader(), p.shards[1].leader()
		p.move(0, 1, func(step string) {
			switch step {
			case "decide":
				p.checkRead(source, id, &task.MovedError{Shard: 2, Epoch: 2, Moving: true})
				p.checkRead(target, id, &task.MovedError{Shard: 2, Epoch: 2, Moving: true})
				if v, err := source.Get(t.Context(), "", id, true); err != nil || v == nil {
					t.Errorf("a stale read of a sealed slot: %v, %v", v, err)
				}
			case "end":
				p.checkRead(source, id, &task.MovedError{Shard: 2, Epoch: 2})
				p.checkRead(target, id, nil)
				f := source.current().firing
				if op := f.unbegun(task.Grant{ID: id}, time.Now()); op.Verdict != fsmpb.Verdict_VERDICT_RELEASED {
					t.Errorf("a grant whose task has moved is settled by %v", op)
				}
				if op := f.unbegun(task.Grant{ID: other}, time.Now()); op.Verdict != fsmpb.Verdict_VERDICT_RETRY {
					t.Errorf("a grant whose task was cancelled is settled by %v", op)
				}
			default:
			}
		})
	})
}

// idWhere returns an id in the lower half, or in the upper half.
func idWhere(lower bool) string {
	for i := 0; ; i++ {
		if id := fmt.Sprint("task-", i); inLowerHalf(id) == lower {
			return id
		}
	}
}

// checkRead checks that a read, a listing and a call fail with the same error, or succeed if want is nil.
func (p *twoShards) checkRead(n *node, id string, want *task.MovedError) {
	p.t.Helper()
	ctx := context.Background()
	_, get := n.Get(ctx, "", id, false)
	page, list := n.List(ctx, &fsmpb.ListQuery{Slot: 0, End: task.Slots / 2, Limit: 9}, false)
	before := n.Newest().Index
	call := n.Do(ctx, []*fsmpb.Command{{Id: id, Op: &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}}})[0].Err
	if want != nil && n.Newest().Index != before {
		p.t.Error("a call on a slot that is not open went into the log")
	}
	for name, err := range map[string]error{"get": get, "list": list, "call": call} {
		var moved *task.MovedError
		switch {
		case want == nil && err == nil:
		case want == nil || !errors.As(err, &moved) || *moved != *want || !errors.Is(err, task.ErrNotProposed):
			p.t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if want == nil && len(page.GetTasks()) != 1 {
		p.t.Errorf("listed %v", page)
	}
}

// TestMovedResultIsAnError checks calls that were in the log behind a seal.
func TestMovedResultIsAnError(t *testing.T) {
	for code, moving := range map[fsmpb.Code]bool{fsmpb.Code_CODE_MOVING: true, fsmpb.Code_CODE_MOVED: false} {
		refused := &fsmpb.Result{Code: code, Revision: 9, Task: &fsmpb.Task{Shard: 4}}
		replies := movedIn([]task.Reply{{Result: refused}, {Result: &fsmpb.Result{}}, {Err: task.ErrUnknown}})
		var moved *task.MovedError
		if !errors.As(replies[0].Err, &moved) || *moved != (task.MovedError{Shard: 4, Epoch: 9, Moving: moving}) {
			t.Errorf("%v: %+v", code, replies[0])
		}
		if replies[0].Result != nil || replies[1].Err != nil || replies[2].Err == nil {
			t.Errorf("%+v", replies)
		}
	}
}
