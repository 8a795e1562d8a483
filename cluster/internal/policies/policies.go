package policies

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// Config holds this node's replica of the control group and its shards.
type Config struct {
	Control *control.Replica
	Shards  func() []*shard.Shard // returns the replicas on this node
	Secrets *seal.Keys            // cluster keys of this node; nil: none
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
	changed, err := p.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetQueue{SetQueue: &clusterpb.SetQueue{Policy: policy}},
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
	ctx, cancel := control.Within(ctx)
	defer cancel()
	for {
		current := control.Queue(p.cfg.Control.State(), namespace, queue)
		policy, err := change(p.Open(current))
		if err != nil {
			return nil, err
		}
		expected := current.GetVersion()
		changed, err := p.change(ctx, &clusterpb.ControlEntry{
			Op: &clusterpb.ControlEntry_SetQueue{SetQueue: &clusterpb.SetQueue{Policy: policy, Expected: &expected}},
		})
		if err != nil {
			return nil, err
		}
		if !changed.Conflict {
			return policy, nil
		}
		if err := p.await(ctx, changed.QueuesVersion); err != nil {
			return nil, fmt.Errorf("%w: %w", task.ErrNotProposed, err)
		}
	}
}

// Delete resets a queue to the defaults; see Put. Its tasks stay.
func (p *Policies) Delete(ctx context.Context, namespace, queue string) (existed bool, err error) {
	del := &clusterpb.DeleteQueue{Namespace: namespace, Queue: queue}
	changed, err := p.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_DeleteQueue{DeleteQueue: del},
	})
	return changed.GetExisted(), err
}

// change has the leader of the control group commit an entry, and waits until it is in force.
func (p *Policies) change(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	return p.cfg.Control.Change(ctx, &clusterpb.ControlChange{Entry: entry})
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
	return p.cfg.Control.Await(ctx, func(s *clusterpb.ControlState) bool { return s.QueuesVersion >= version })
}
