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
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/fsm/task"
)

// here answers calls with the replicas of one process.
type here struct {
	replicas.Answers
	p *process
}

var _ calls.Node = here{}

func (p *process) here() here { return here{p.replicas.Answers, p} }

// Change returns task.ErrNotProposed: the control group is not simulated.
func (here) Change(context.Context, *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	return nil, task.ErrNotProposed
}

// there returns the remote side of another node. Its calls go over the simulated network.
func (p *process) there(node string) calls.Remote {
	ask := func(ctx context.Context, call *clusterpb.Call, _ bool) (*clusterpb.CallReply, error) {
		sent := proto.CloneOf(call) // the other side writes into commands
		return askThere(ctx, p, node, func(ctx context.Context, h here) (*clusterpb.CallReply, error) {
			return calls.Answer(ctx, h, sent), nil
		})
	}
	return calls.Remote{Node: node, Ask: ask}
}

// askThere runs a function on another node and returns its result. An error wraps task.ErrNotProposed if the call was
// not sent, and task.ErrUnknown if the other node may have carried it out.
func askThere[T any](
	ctx context.Context, p *process, node string, ask func(context.Context, here) (T, error),
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
		value, err := ask(ctx, other.here())
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

// askTime asks another node for its clock, which the clock comparison needs. It returns the one reading as both
// received and answered.
func (p *process) askTime(ctx context.Context, node string) (received, answered time.Time, err error) {
	at, err := askThere(ctx, p, node, func(_ context.Context, h here) (time.Time, error) {
		return h.p.node.clock.now(), nil
	})
	return at, at, err
}
