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

// PutQueue makes this the policy of its queue, for which any node may be asked. It returns once the policy is committed
// and in force on every node that can be reached, or a second after it is committed. Errors are *task.FieldError,
// *task.QueuesFullError, task.ErrNotProposed and task.ErrUnknown. A context without a deadline gives the call ten
// seconds. No error and no log has any of the policy's secrets in it.
func (n *Node) PutQueue(ctx context.Context, policy *fsmpb.QueuePolicy) (created bool, err error) {
	changed, err := n.changeQueue(ctx, &clusterpb.QueueChange{
		Op: &clusterpb.QueueChange_Set{Set: &clusterpb.SetQueue{Policy: policy}},
	})
	return err == nil && !changed.Existed, err
}

// UpdateQueue makes what change returns the policy of a queue, and returns it. Change gets the policy that there is,
// nil for none, which it must not write to. It is called again if another change came between, so that none is lost. An
// error of its own ends the call; see PutQueue for the others.
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

// DeleteQueue gives a queue the defaults again; see PutQueue. Tasks are not touched.
func (n *Node) DeleteQueue(ctx context.Context, namespace, queue string) (existed bool, err error) {
	changed, err := n.changeQueue(ctx, &clusterpb.QueueChange{
		Op: &clusterpb.QueueChange_Delete{Delete: &clusterpb.DeleteQueue{Namespace: namespace, Queue: queue}},
	})
	return changed.GetExisted(), err
}

// changePatience bounds a change of a queue whose context has no deadline.
const changePatience = 10 * time.Second

// changeWithin gives a context without a deadline one.
func changeWithin(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, changePatience)
}

// changeQueue has the change committed, and waits until it is in force.
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

// changeAt has a node commit the change, which it does if it leads the control group.
func (n *Node) changeAt(
	ctx context.Context, node string, change *clusterpb.QueueChange,
) (*clusterpb.QueueChanged, error) {
	if node == n.ID() {
		return n.changeHere(ctx, change)
	}
	return n.peers.get(node).calls.ChangeQueue(ctx, change)
}

// changeHere has this node's replica of the control group commit the change; see control.Group.
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

// policiesHere is what this node knows of the policies, for the shards on it.
type policiesHere struct{ n *Node }

var _ shard.Policies = policiesHere{}

// Policy looks it up in the control group's state.
func (p policiesHere) Policy(namespace, queue string) *fsmpb.QueuePolicy {
	return control.Queue(p.n.state(), namespace, queue)
}

// Watch is known once the node's entry for this very start is in the state: then so is all that was decided before it
// registered. What the replica of the control group knows at first is as old as its last snapshot.
func (p policiesHere) Watch() (shard.Policed, <-chan struct{}) {
	state, changed := p.n.controlGroup().Watch()
	self := control.Node(state, p.n.ID())
	return shard.Policed{
		Queues: state.Queues, Version: state.QueuesVersion, Known: self.GetBoot() == p.n.identity.Boot(),
	}, changed
}

// inForcePatience is how long a change that is committed waits to be in force everywhere.
const inForcePatience = time.Second

// awaitInForce waits for every node that seems alive.
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

// inForce returns once this node knows the policies of this version, and the shards that it leads go by them. A shard
// that it begins to lead later does from the first.
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
