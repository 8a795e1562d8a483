package control

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
	"github.com/belfryhq/belfry/shard"
)

// Policies is the policies of all queues and the calendars, as this node knows and changes them. Its methods are safe
// for concurrent use.
type Policies struct {
	replica   *Replica
	shards    func() []*shard.Shard // returns the replicas of shards on this node
	secrets   *seal.Keys            // cluster keys of this node; nil: none
	log       *slog.Logger
	opened    opened
	calendars readCalendars
}

var _ shard.Policies = (*Policies)(nil)

// NewPolicies returns the policies of a node.
func NewPolicies(replica *Replica, shards func() []*shard.Shard, secrets *seal.Keys, log *slog.Logger) *Policies {
	return &Policies{replica: replica, shards: shards, secrets: secrets, log: log}
}

// PutQueue sets the policy of a queue. A caller may use any node. PutQueue returns once the policy is committed and in
// force on every reachable node, or a second after the commit. Errors are *task.FieldError, *task.QueuesFullError,
// task.ErrNotProposed and task.ErrUnknown. A context without a deadline gives the call ten seconds. No error and no
// log contains a secret of the policy.
func (p *Policies) PutQueue(ctx context.Context, policy *fsmpb.QueuePolicy) (created bool, err error) {
	changed, err := p.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetQueue{SetQueue: &clusterpb.SetQueue{Policy: policy}},
	})
	return err == nil && !changed.Existed, err
}

// UpdateQueue sets the policy of a queue to the result of change, and returns it. change receives the present policy,
// nil for none, and must not write to it. The policy is sealed if this node lacks its cluster key. UpdateQueue calls
// change again if another change came between, so that no change is lost. An error of change ends the call; see
// PutQueue for the others.
func (p *Policies) UpdateQueue(
	ctx context.Context, namespace, queue string, change func(*fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error),
) (*fsmpb.QueuePolicy, error) {
	ctx, cancel := Within(ctx)
	defer cancel()
	for {
		current := Queue(p.replica.State(), namespace, queue)
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

// DeleteQueue resets a queue to the defaults; see PutQueue. Its tasks stay.
func (p *Policies) DeleteQueue(ctx context.Context, namespace, queue string) (existed bool, err error) {
	del := &clusterpb.DeleteQueue{Namespace: namespace, Queue: queue}
	changed, err := p.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_DeleteQueue{DeleteQueue: del},
	})
	return changed.GetExisted(), err
}

// change has the leader of the control group commit an entry, and waits until it is in force.
func (p *Policies) change(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	return p.replica.Change(ctx, &clusterpb.ControlChange{Entry: entry})
}

// Policy returns the policy of a queue from the control group's state, with its secrets in the clear. The policy is
// sealed if this node lacks its cluster key.
func (p *Policies) Policy(namespace, queue string) *fsmpb.QueuePolicy {
	return p.Open(Queue(p.replica.State(), namespace, queue))
}

// Open returns a policy of the control group's state with its secrets in the clear, or as it is if this node lacks
// its cluster key. The caller must not change it.
func (p *Policies) Open(policy *fsmpb.QueuePolicy) *fsmpb.QueuePolicy {
	if policy.GetSealed() == nil {
		return policy
	}
	plain, err := p.opened.open(policy, p.replica.State().QueuesVersion, p.secrets.Ring())
	if err != nil {
		p.log.Warn("tasks of a queue cannot be sent from here", "namespace", policy.Namespace, "queue", policy.Queue,
			"err", err)
	}
	return plain
}

// Watch returns the policies and a channel that is closed at the next change. Known is set once the state has the
// node's entry for this start, because the state then has all decisions from before the registration, too. The replica
// of the control group begins with a state as old as its last snapshot.
func (p *Policies) Watch() (shard.Policed, <-chan struct{}) {
	state, changed := p.replica.Watch()
	return shard.Policed{
		Queues: state.Queues, Version: state.QueuesVersion, Known: p.replica.IsCurrent(state),
	}, changed
}

// InForce returns once this node knows the policies of this version and the shards that it leads obey them. A shard
// that the node begins to lead later obeys them from the start.
func (p *Policies) InForce(ctx context.Context, version uint64) error {
	if err := p.await(ctx, version); err != nil {
		return err
	}
	for _, s := range p.shards() {
		if err := s.AwaitRules(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// await waits until this node knows the policies of this version.
func (p *Policies) await(ctx context.Context, version uint64) error {
	return p.replica.Await(ctx, func(s *clusterpb.ControlState) bool { return s.QueuesVersion >= version })
}

// PutCalendar makes or replaces a calendar, whose fields the caller has checked; see PutQueue. The error is
// a *task.FieldError if it would be one too many.
func (p *Policies) PutCalendar(ctx context.Context, c *fsmpb.Calendar) (created bool, err error) {
	changed, err := p.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetCalendar{SetCalendar: &clusterpb.SetCalendar{Calendar: c}},
	})
	return err == nil && !changed.Existed, err
}

// DeleteCalendar removes a calendar; see PutQueue.
func (p *Policies) DeleteCalendar(ctx context.Context, namespace, name string) (existed bool, err error) {
	del := &clusterpb.DeleteCalendar{Namespace: namespace, Name: name}
	changed, err := p.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_DeleteCalendar{DeleteCalendar: del},
	})
	return changed.GetExisted(), err
}

// Calendars returns the calendars of a namespace that this node knows, by name. The caller must not change them.
func (p *Policies) Calendars(namespace string) []*fsmpb.Calendar {
	return Calendars(p.replica.State(), namespace)
}

// Calendar returns a calendar as this node knows it, with its version. The version is 0 if there is none.
func (p *Policies) Calendar(namespace, name string) (*calendar.Calendar, uint64) {
	stored := Calendar(p.replica.State(), namespace, name)
	if stored == nil {
		return nil, 0
	}
	c, err := p.calendars.read(stored)
	if err != nil {
		p.log.Error("a calendar cannot be read: its schedules have no occurrences",
			"namespace", stored.Namespace, "calendar", stored.Name, "err", err)
		return nil, 0
	}
	return c, stored.Version
}

// CalendarVersion returns the version of a calendar, and 0 if there is none.
func (p *Policies) CalendarVersion(namespace, name string) uint64 {
	return Calendar(p.replica.State(), namespace, name).GetVersion()
}

// readCalendars keeps calendars that were read, since leaders ask for them again and again.
type readCalendars struct {
	mu sync.Mutex
	by map[calendarName]readCalendar
}

type calendarName struct{ namespace, name string }

type readCalendar struct {
	stored *fsmpb.Calendar
	read   *calendar.Calendar
}

func (r *readCalendars) read(stored *fsmpb.Calendar) (*calendar.Calendar, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := calendarName{stored.Namespace, stored.Name}
	if known := r.by[name]; known.stored == stored {
		return known.read, nil
	}
	c, err := calendar.New(series.CalendarOf(stored))
	if err != nil {
		return nil, err
	}
	if r.by == nil || len(r.by) >= MaxCalendars { // some of them are gone
		r.by = map[calendarName]readCalendar{}
	}
	r.by[name] = readCalendar{stored, c}
	return c, nil
}

// opened keeps opened policies, since deliveries need them again and again. It forgets them when a policy or a key
// changes, so that no removed secret stays in memory.
type opened struct {
	mu      sync.Mutex
	version uint64 // of the policies
	ring    *seal.Ring
	by      map[*fsmpb.QueuePolicy]*fsmpb.QueuePolicy // by the sealed policy
}

// open returns the policy with its secrets in the clear, or as it is if the ring lacks its key. Only the first call
// returns the error of a policy that cannot be opened.
func (o *opened) open(p *fsmpb.QueuePolicy, version uint64, ring *seal.Ring) (*fsmpb.QueuePolicy, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil || o.version != version || o.ring != ring {
		o.by, o.version, o.ring = map[*fsmpb.QueuePolicy]*fsmpb.QueuePolicy{}, version, ring
	}
	if plain, ok := o.by[p]; ok {
		return plain, nil
	}
	plain, err := ring.Open(p)
	if err != nil {
		plain = p
	}
	o.by[p] = plain
	return plain, err
}
