package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Nodes is the way to the nodes of the cluster.
type Nodes interface {
	// Change asks another node for a change, which it makes if it leads the group; see Group.Change. The error is the
	// group's, or wraps task.ErrNotProposed or task.ErrUnknown if the node does not answer.
	Change(ctx context.Context, node string, change *clusterpb.ControlChange) (*clusterpb.ControlChanged, error)
	// Await waits until versions of the state are in force on a node, which may be this one.
	Await(ctx context.Context, node string, versions *clusterpb.AwaitRequest) error
	// Alive reports whether a node seems alive.
	Alive(node string) bool
}

// Patience is the longest wait until a committed change is known and in force where it should be.
const Patience = time.Second

// changePatience bounds a change whose context has no deadline.
const changePatience = 10 * time.Second

// Within gives a context without a deadline the ten seconds of a change.
func Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, changePatience)
}

// Change has the leader of the group make a change, on any node. It returns once this node has applied the change and,
// if the change is about queues, calendars, keys or namespaces, all nodes that seem alive obey it; or a second after
// the commit. The error is a *task.ImpossibleError with the leader's reason, a *task.FieldError, or a
// *task.QueuesFullError, or wraps task.ErrNotProposed or task.ErrUnknown. A context without a deadline gives the call
// ten seconds. The caller must not change the answer's parts.
func (r *Replica) Change(ctx context.Context, change *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	ctx, cancel := Within(ctx)
	defer cancel()
	changed, err := r.commit(ctx, change)
	if err != nil {
		return nil, err
	}
	r.await(ctx, changed)
	return changed, nil
}

// commit asks one node after the other until the leader has answered. It repeats a change of unknown outcome if a
// repeat has no further effect.
func (r *Replica) commit(ctx context.Context, change *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	k, op, _ := kindOf(change.GetEntry())
	before, unsure := r.State(), false
	for search := r.search(); ; {
		changed, err := r.ask(ctx, search.Next(), change)
		if err == nil && changed.Impossible != "" {
			err = &task.ImpossibleError{Reason: changed.Impossible}
		}
		switch {
		case err == nil:
			if unsure && k.answer != nil { // the earlier try may have made the change, and the repeat found it there
				first := &clusterpb.ControlChanged{}
				k.answer(first, before, before, op)
				changed.Existed = first.Existed
			}
			return changed, nil
		case errors.Is(err, task.ErrUnknown) && k.repeats:
			unsure = true
		case !calls.Repeatable(err):
			return nil, outcome(err, unsure)
		}
		if err := search.Again(ctx, err); err != nil {
			return nil, outcome(err, unsure)
		}
	}
}

// outcome returns the error of a change by the error of its last try. After an earlier try of unknown outcome, a
// refusal does not prove that nothing has changed.
func outcome(last error, unsure bool) error {
	if unsure && !errors.Is(last, task.ErrUnknown) {
		return fmt.Errorf("%w: an earlier try was not answered; the last one: %s", task.ErrUnknown, last.Error())
	}
	return last
}

func (r *Replica) ask(
	ctx context.Context, node string, change *clusterpb.ControlChange,
) (*clusterpb.ControlChanged, error) {
	if node == r.cfg.Node {
		return r.ChangeHere(ctx, change)
	}
	return r.cfg.Nodes.Change(ctx, node, change)
}

// ChangeHere makes a change through this node's group, which must lead; see Group.Change.
func (r *Replica) ChangeHere(
	ctx context.Context, change *clusterpb.ControlChange,
) (*clusterpb.ControlChanged, error) {
	g := r.Group()
	if g == nil {
		return nil, errNoCluster()
	}
	return g.Change(ctx, change)
}

func errNoCluster() error {
	return fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
}

// await waits until a change is known here, and in force everywhere if it is about queues or access. A node that is
// late will read the same log, so a wait that fails is no error of the change.
func (r *Replica) await(ctx context.Context, changed *clusterpb.ControlChanged) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	versions := &clusterpb.AwaitRequest{Queues: changed.QueuesVersion, Access: changed.AccessVersion}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	if !changed.Conflict && versions.Queues+versions.Access > 0 {
		for _, node := range r.State().Nodes {
			if r.cfg.Nodes.Alive(node.Id) {
				waiting.Go(func() { r.log(node.Id, r.cfg.Nodes.Await(ctx, node.Id, versions)) })
			}
		}
	}
	if g := r.Group(); g != nil {
		r.log(r.cfg.Node, g.machine.await(ctx, changed.Index))
	}
}

func (r *Replica) log(node string, err error) {
	if err != nil {
		r.cfg.Logger.Debug("a node did not say that it knows a change", "node", node, "err", err)
	}
}

// Await waits until the state of this node's replica satisfies a condition.
func (r *Replica) Await(ctx context.Context, reached func(*clusterpb.ControlState) bool) error {
	for {
		state, changed := r.Watch()
		switch {
		case changed == nil:
			return errNoCluster()
		case reached(state):
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
