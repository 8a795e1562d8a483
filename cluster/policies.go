package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// PutQueue sets the policy of a queue. A caller may use any node. PutQueue returns once the policy is committed and in
// force on every reachable node, or a second after the commit. Errors are *task.FieldError, *task.QueuesFullError,
// task.ErrNotProposed and task.ErrUnknown. A context without a deadline gives the call ten seconds. No error and no
// log contains a secret of the policy.
func (n *Node) PutQueue(ctx context.Context, policy *fsmpb.QueuePolicy) (created bool, err error) {
	changed, err := n.changeQueue(ctx, &clusterpb.QueueChange{
		Op: &clusterpb.QueueChange_Set{Set: &clusterpb.SetQueue{Policy: policy}},
	})
	return err == nil && !changed.Existed, err
}

// UpdateQueue sets the policy of a queue to the result of change, and returns it. change receives the present policy,
// nil for none, and must not write to it. UpdateQueue calls change again if another change came between, so that no
// change is lost. An error of change ends the call; see PutQueue for the others.
func (n *Node) UpdateQueue(
	ctx context.Context, namespace, queue string, change func(*fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error),
) (*fsmpb.QueuePolicy, error) {
	ctx, cancel := changeWithin(ctx)
	defer cancel()
	for {
		current := control.Queue(n.state(), namespace, queue)
		policy, err := change(current)
		if err != nil {
			return nil, err
		}
		expected := current.GetVersion()
		changed, err := n.changeQueue(ctx, &clusterpb.QueueChange{
			Op: &clusterpb.QueueChange_Set{Set: &clusterpb.SetQueue{Policy: policy, Expected: &expected}},
		})
		if err != nil {
			return nil, err
		}
		if !changed.Conflict {
			return policy, nil
		}
		if err := n.policiesAt(ctx, changed.Version); err != nil {
			return nil, fmt.Errorf("%w: %w", task.ErrNotProposed, err)
		}
	}
}

// DeleteQueue resets a queue to the defaults; see PutQueue. Its tasks stay.
func (n *Node) DeleteQueue(ctx context.Context, namespace, queue string) (existed bool, err error) {
	changed, err := n.changeQueue(ctx, &clusterpb.QueueChange{
		Op: &clusterpb.QueueChange_Delete{Delete: &clusterpb.DeleteQueue{Namespace: namespace, Queue: queue}},
	})
	return changed.GetExisted(), err
}

// changePatience bounds a change of a queue whose context has no deadline.
const changePatience = 10 * time.Second

// changeWithin adds the deadline of changePatience to a context without a deadline.
func changeWithin(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, changePatience)
}

// changeQueue commits the change through the control group's leader, and waits until it is in force.
func (n *Node) changeQueue(ctx context.Context, change *clusterpb.QueueChange) (*clusterpb.QueueChanged, error) {
	ctx, cancel := changeWithin(ctx)
	defer cancel()
	for search := n.searchControl(); ; {
		changed, err := n.changeAt(ctx, search.Next(), change)
		if err == nil {
			if !changed.Conflict {
				n.awaitInForce(ctx, changed.Version)
			}
			return changed, nil
		}
		if !leaders.Repeatable(err) {
			return nil, err
		}
		if err := search.Again(ctx, err); err != nil {
			return nil, err
		}
	}
}

// changeAt asks a node to commit the change. The node does so if it leads the control group.
func (n *Node) changeAt(
	ctx context.Context, node string, change *clusterpb.QueueChange,
) (*clusterpb.QueueChanged, error) {
	if node == n.ID() {
		return n.changeHere(ctx, change)
	}
	return n.peers.get(node).calls.ChangeQueue(ctx, change)
}

// changeHere commits the change through this node's replica of the control group; see control.Group.
func (n *Node) changeHere(ctx context.Context, change *clusterpb.QueueChange) (*clusterpb.QueueChanged, error) {
	g := n.controlGroup()
	if g == nil {
		return nil, fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	var done control.Change
	var err error
	switch op := change.GetOp().(type) {
	case *clusterpb.QueueChange_Set:
		done, err = g.SetQueue(ctx, op.Set)
	case *clusterpb.QueueChange_Delete:
		done, err = g.DeleteQueue(ctx, op.Delete.GetNamespace(), op.Delete.GetQueue())
	default:
		err = fmt.Errorf("%w: a change that this build does not know", task.ErrNotProposed)
	}
	if err != nil {
		return nil, err
	}
	return &clusterpb.QueueChanged{Existed: done.Existed, Version: done.Version, Conflict: done.Conflict}, nil
}

// policiesHere gives the shards on this node its knowledge of the policies.
type policiesHere struct{ n *Node }

var _ shard.Policies = policiesHere{}

// Policy returns the policy of a queue from the control group's state.
func (p policiesHere) Policy(namespace, queue string) *fsmpb.QueuePolicy {
	return control.Queue(p.n.state(), namespace, queue)
}

// Watch returns the policies and a channel that is closed at the next change. Known is set once the state has the
// node's entry for this start, because the state then has all decisions from before the registration, too. The replica
// of the control group begins with a state as old as its last snapshot.
func (p policiesHere) Watch() (shard.Policed, <-chan struct{}) {
	state, changed := p.n.controlGroup().Watch()
	self := control.Node(state, p.n.ID())
	return shard.Policed{
		Queues: state.Queues, Version: state.QueuesVersion, Known: self.GetBoot() == p.n.identity.Boot(),
	}, changed
}

// inForcePatience is the longest wait for a committed change to be in force everywhere.
const inForcePatience = time.Second

// awaitInForce waits until every node that seems alive has the version in force.
func (n *Node) awaitInForce(ctx context.Context, version uint64) {
	ctx, cancel := context.WithTimeout(ctx, inForcePatience)
	defer cancel()
	var wg sync.WaitGroup
	for _, node := range n.state().Nodes {
		if !n.health.Alive(node.Id) {
			continue
		}
		wg.Go(func() {
			if err := n.askInForce(ctx, node.Id, version); err != nil {
				n.cfg.Logger.Debug("a node did not say that a policy is in force", "node", node.Id, "err", err)
			}
		})
	}
	wg.Wait()
}

func (n *Node) askInForce(ctx context.Context, node string, version uint64) error {
	if node == n.ID() {
		return n.inForce(ctx, version)
	}
	_, err := n.peers.get(node).rpc.AwaitQueues(ctx, &clusterpb.AwaitQueuesRequest{Version: version})
	return err
}

// inForce returns once this node knows the policies of this version and the shards that it leads obey them. A shard
// that the node begins to lead later obeys them from the start.
func (n *Node) inForce(ctx context.Context, version uint64) error {
	if err := n.policiesAt(ctx, version); err != nil {
		return err
	}
	for _, s := range n.replicas.All() {
		if err := s.AwaitRules(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// policiesAt waits until this node knows the policies of this version.
func (n *Node) policiesAt(ctx context.Context, version uint64) error {
	g := n.controlGroup()
	if g == nil {
		return fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	for {
		state, changed := g.Watch()
		if state.QueuesVersion >= version {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
