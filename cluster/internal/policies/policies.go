package policies

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// Config holds this node's replica of the control group, and the ways to the nodes and shards.
type Config struct {
	Self    string // node id
	Control *control.Replica
	Shards  func() []*shard.Shard                  // returns the replicas on this node
	Alive   func(node string) bool                 // reports whether a node seems alive
	Node    func(node string) calls.Node           // changes policies at another node
	Peer    func(node string) clusterpb.PeerClient // asks another node
	Secrets *seal.Keys                             // cluster keys of this node; nil: none
	Logger  *slog.Logger
}

// Policies is the policies of all queues and the calendars, as this node knows and changes them. Its methods are safe
// for concurrent use.
type Policies struct {
	cfg       Config
	opened    opened
	calendars readCalendars
}

var _ shard.Policies = (*Policies)(nil)

// New returns the policies of a node.
func New(cfg Config) *Policies { return &Policies{cfg: cfg} }

// Put sets the policy of a queue. A caller may use any node. Put returns once the policy is committed and in
// force on every reachable node, or a second after the commit. Errors are *task.FieldError, *task.QueuesFullError,
// task.ErrNotProposed and task.ErrUnknown. A context without a deadline gives the call ten seconds. No error and no
// log contains a secret of the policy.
func (p *Policies) Put(ctx context.Context, policy *fsmpb.QueuePolicy) (created bool, err error) {
	changed, err := p.change(ctx, &clusterpb.QueueChange{
		Op: &clusterpb.QueueChange_Set{Set: &clusterpb.SetQueue{Policy: policy}},
	})
	return err == nil && !changed.Existed, err
}

// Update sets the policy of a queue to the result of change, and returns it. change receives the present policy,
// nil for none, and must not write to it. The policy is sealed if this node lacks its cluster key. Update calls
// change again if another change came between, so that no change is lost. An error of change ends the call; see Put for
// the others.
func (p *Policies) Update(
	ctx context.Context, namespace, queue string, change func(*fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error),
) (*fsmpb.QueuePolicy, error) {
	ctx, cancel := changeWithin(ctx)
	defer cancel()
	for {
		current := control.Queue(p.cfg.Control.State(), namespace, queue)
		policy, err := change(p.Open(current))
		if err != nil {
			return nil, err
		}
		expected := current.GetVersion()
		changed, err := p.change(ctx, &clusterpb.QueueChange{
			Op: &clusterpb.QueueChange_Set{Set: &clusterpb.SetQueue{Policy: policy, Expected: &expected}},
		})
		if err != nil {
			return nil, err
		}
		if !changed.Conflict {
			return policy, nil
		}
		if err := p.await(ctx, changed.Version); err != nil {
			return nil, fmt.Errorf("%w: %w", task.ErrNotProposed, err)
		}
	}
}

// Delete resets a queue to the defaults; see Put. Its tasks stay.
func (p *Policies) Delete(ctx context.Context, namespace, queue string) (existed bool, err error) {
	changed, err := p.change(ctx, &clusterpb.QueueChange{
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

// change commits the change through the control group's leader, and waits until it is in force.
func (p *Policies) change(ctx context.Context, change *clusterpb.QueueChange) (*clusterpb.QueueChanged, error) {
	ctx, cancel := changeWithin(ctx)
	defer cancel()
	for search := p.cfg.Control.Search(); ; {
		changed, err := p.changeAt(ctx, search.Next(), change)
		if err == nil {
			if !changed.Conflict {
				p.awaitEverywhere(ctx, changed.Version)
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
func (p *Policies) changeAt(
	ctx context.Context, node string, change *clusterpb.QueueChange,
) (*clusterpb.QueueChanged, error) {
	if node == p.cfg.Self {
		return p.ChangeHere(ctx, change)
	}
	return p.cfg.Node(node).ChangeQueue(ctx, change)
}

// ChangeHere commits the change through this node's replica of the control group; see control.Group.
func (p *Policies) ChangeHere(ctx context.Context, change *clusterpb.QueueChange) (*clusterpb.QueueChanged, error) {
	g := p.cfg.Control.Group()
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
	case *clusterpb.QueueChange_SetCalendar:
		done, err = g.SetCalendar(ctx, op.SetCalendar)
	case *clusterpb.QueueChange_DeleteCalendar:
		done, err = g.DeleteCalendar(ctx, op.DeleteCalendar.GetNamespace(), op.DeleteCalendar.GetName())
	default:
		err = fmt.Errorf("%w: a change that this build does not know", task.ErrNotProposed)
	}
	if err != nil {
		return nil, err
	}
	return &clusterpb.QueueChanged{Existed: done.Existed, Version: done.Version, Conflict: done.Conflict}, nil
}

// Policy returns the policy of a queue from the control group's state, with its secrets in the clear. The policy is
// sealed if this node lacks its cluster key.
func (p *Policies) Policy(namespace, queue string) *fsmpb.QueuePolicy {
	return p.Open(control.Queue(p.cfg.Control.State(), namespace, queue))
}

// Open returns a policy of the control group's state with its secrets in the clear, or as it is if this node lacks
// its cluster key. The caller must not change it.
func (p *Policies) Open(policy *fsmpb.QueuePolicy) *fsmpb.QueuePolicy {
	if policy.GetSealed() == nil {
		return policy
	}
	plain, err := p.opened.open(policy, p.cfg.Control.State().QueuesVersion, p.cfg.Secrets.Ring())
	if err != nil {
		p.cfg.Logger.Warn("tasks of a queue cannot be sent from here", "namespace", policy.Namespace, "queue", policy.Queue,
			"err", err)
	}
	return plain
}

// Watch returns the policies and a channel that is closed at the next change. Known is set once the state has the
// node's entry for this start, because the state then has all decisions from before the registration, too. The replica
// of the control group begins with a state as old as its last snapshot.
func (p *Policies) Watch() (shard.Policed, <-chan struct{}) {
	state, changed := p.cfg.Control.Watch()
	return shard.Policed{
		Queues: state.Queues, Version: state.QueuesVersion, Known: p.cfg.Control.IsCurrent(state),
	}, changed
}

// Patience is the longest wait for a committed change to be in force everywhere.
const Patience = time.Second

// awaitEverywhere waits until every node that seems alive has the version in force.
func (p *Policies) awaitEverywhere(ctx context.Context, version uint64) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, node := range p.cfg.Control.State().Nodes {
		if !p.cfg.Alive(node.Id) {
			continue
		}
		wg.Go(func() {
			if err := p.awaitAt(ctx, node.Id, version); err != nil {
				p.cfg.Logger.Debug("a node did not say that a policy is in force", "node", node.Id, "err", err)
			}
		})
	}
	wg.Wait()
}

// awaitAt waits until a node has the version in force.
func (p *Policies) awaitAt(ctx context.Context, node string, version uint64) error {
	if node == p.cfg.Self {
		return p.InForce(ctx, version)
	}
	_, err := p.cfg.Peer(node).AwaitQueues(ctx, &clusterpb.AwaitQueuesRequest{Version: version})
	return err
}

// InForce returns once this node knows the policies of this version and the shards that it leads obey them. A shard
// that the node begins to lead later obeys them from the start.
func (p *Policies) InForce(ctx context.Context, version uint64) error {
	if err := p.await(ctx, version); err != nil {
		return err
	}
	for _, s := range p.cfg.Shards() {
		if err := s.AwaitRules(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// await waits until this node knows the policies of this version.
func (p *Policies) await(ctx context.Context, version uint64) error {
	g := p.cfg.Control.Group()
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
