package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/consume"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// At returns a node to call, which may be this one. Calls to another node go over the simulated network. No node has a
// handler for the control group, which is not simulated.
func (p *process) At(node string) calls.Node {
	if node == p.node.name {
		return p.table
	}
	send := func(ctx context.Context, call *clusterpb.Call, _ string) (*clusterpb.CallReply, error) {
		return askThere(ctx, p, node, func(ctx context.Context, other *process) (*clusterpb.CallReply, error) {
			return other.table.Answer(ctx, call), nil
		})
	}
	return calls.Remote{Node: node, Send: send}
}

// askThere runs a function on another node and returns its result. An error wraps task.ErrNotProposed if the call was
// not sent, and task.ErrUnknown if the other node may have carried it out.
func askThere[T any](
	ctx context.Context, p *process, node string, ask func(context.Context, *process) (T, error),
) (T, error) {
	type answer struct {
		value T
		err   error
	}
	a, err := wire.Call(ctx, p.host, node, func(ctx context.Context, at *wire.Host) answer {
		other := p.world.processAt(at)
		if other == nil {
			return answer{err: task.ErrNotProposed}
		}
		value, err := ask(ctx, other)
		return answer{value, err}
	})
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return a.value, fmt.Errorf("%w: %w", task.ErrNotProposed, err)
	case err != nil:
		return a.value, fmt.Errorf("%w: %w", task.ErrUnknown, err)
	}
	return a.value, a.err
}

// AskTime asks another node for its clock, which the clock comparison needs. It returns the one reading as both
// received and answered.
func (p *process) AskTime(ctx context.Context, node string) (received, answered time.Time, err error) {
	at, err := askThere(ctx, p, node, func(_ context.Context, other *process) (time.Time, error) {
		return other.node.clock.now(), nil
	})
	return at, at, err
}

// Arrived asks another node which leases of a shard, given by their fences, arrived there.
func (p *process) Arrived(ctx context.Context, node string, shard uint32, fences []uint64) (desk.Arrivals, error) {
	return askThere(ctx, p, node, func(_ context.Context, other *process) (desk.Arrivals, error) {
		return other.consumers.ArrivedHere(shard, fences), nil
	})
}

// streamPatience is how long a broken stream goes unnoticed.
const streamPatience = 5 * time.Second

// Pull opens a stream to another node, on which this node sends the demand of its consumers.
func (p *process) Pull(ctx context.Context, node string) (consume.Stream, error) {
	return wire.Dial(ctx, p.host, node, streamPatience,
		func(at *wire.Host, s *wire.Stream[*clusterpb.PullRequest, *clusterpb.PullReply]) {
			if other := p.world.processAt(at); other != nil {
				_ = other.consumers.Serve(s, at.Life().Done()) // the asking side sees why the stream ended
			}
		})
}

// receive carries out a call as the HTTP API does. Delays count from the receipt, by the node's estimate of the time,
// which can be wrong. An operation with a delay is refused while the node is not sure of the time.
func (p *process) receive(ctx context.Context, ops []*fsmpb.Command) []task.Reply {
	now, sure := p.clocks.Now()
	replies := make([]task.Reply, len(ops))
	var cmds []*fsmpb.Command
	var places []int
	for i, o := range ops {
		if !sure && counts(o) {
			replies[i].Err = task.ErrNotProposed
			continue
		}
		cmds, places = append(cmds, received(o, now)), append(places, i)
	}
	for i, reply := range p.router.Do(ctx, cmds) {
		replies[places[i]] = reply
	}
	return replies
}

// counts reports whether the operation has a time that counts from its receipt.
func counts(cmd *fsmpb.Command) bool {
	switch op := cmd.Op.(type) {
	case *fsmpb.Command_Schedule:
		return op.Schedule.DelayMs != nil
	case *fsmpb.Command_Touch, *fsmpb.Command_Patch, *fsmpb.Command_SetSeries:
		return true
	}
	return false
}

// received returns a copy of the command with the instants that count from the receipt at the given time. A repeat
// counts from its own receipt.
func received(cmd *fsmpb.Command, at time.Time) *fsmpb.Command {
	cmd = proto.CloneOf(cmd)
	switch op := cmd.Op.(type) {
	case *fsmpb.Command_Schedule:
		stamp(op.Schedule, at)
	case *fsmpb.Command_Touch:
		op.Touch.ReceivedAtMs = ceilMs(at)
		if op.Touch.OrSchedule != nil {
			stamp(op.Touch.OrSchedule, at)
		}
	case *fsmpb.Command_SetSeries:
		op.SetSeries.ReceivedAtMs = ceilMs(at)
	case *fsmpb.Command_Patch:
		op.Patch.FireAtMs = proto.Int64(after(at, op.Patch.GetDelayMs()))
	}
	return cmd
}

func stamp(s *fsmpb.Schedule, at time.Time) {
	s.ReceivedAtMs = ceilMs(at)
	if s.DelayMs != nil {
		s.FireAtMs = after(at, *s.DelayMs)
	}
}

// after returns the instant ms milliseconds after at, in Unix milliseconds and rounded up as the service does.
func after(at time.Time, ms int64) int64 { return ceilMs(at.Add(time.Duration(ms) * time.Millisecond)) }
