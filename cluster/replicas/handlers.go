package replicas

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/consume"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// MaxUnnamed is the number of queues without a policy that are listed. Any caller may schedule into any queue, and so
// make queues.
const MaxUnnamed = control.MaxQueues

// Handlers returns the handlers of the calls that replicas on this node answer, besides commands.
func (s *Set) Handlers() []calls.Handler {
	return []calls.Handler{
		on(s, get), on(s, list), on(s, s.queues), on(s, namespaceUse), on(s, outlook), on(s, activity),
		on(s, lendPermits), on(s, askGroups), on(s, lookGroups), calls.On(s.quota),
		on(s, members), on(s, readSlots), on(s, s.pullSlots),
	}
}

// on returns the handler of calls that the replica of their shard answers.
func on[Q, A proto.Message](s *Set, ask func(context.Context, *shard.Shard, Q) (A, error)) calls.Handler {
	return calls.On(func(ctx context.Context, id uint32, request Q) (A, error) {
		replica, err := s.Find(id)
		if err != nil {
			var none A
			return none, err
		}
		return ask(ctx, replica, request)
	})
}

// Do passes commands to the replica, except commands refused by the admission or a quota.
func (s *Set) Do(ctx context.Context, id uint32, cmds []*fsmpb.Command) []task.Reply {
	replica, err := s.Find(id)
	if err != nil {
		return calls.Refuse(len(cmds), err)
	}
	refused, term, release := s.refused(cmds), uint64(0), func() {}
	if s.cfg.Quotas != nil {
		var full []error
		full, term, release = s.cfg.Quotas.Claim(ctx, replica, cmds)
		for i, err := range full { // nil: none is refused
			if refused == nil {
				refused = make([]task.Reply, len(cmds))
			}
			refused[i].Err = cmp.Or(refused[i].Err, err)
		}
	}
	if refused == nil {
		return replica.DoThen(ctx, term, cmds, release)
	}
	var admitted []*fsmpb.Command
	for i, c := range cmds {
		if refused[i].Err == nil {
			admitted = append(admitted, c)
		}
	}
	done := replica.DoThen(ctx, term, admitted, release)
	for i := range refused {
		if refused[i].Err == nil {
			refused[i], done = done[0], done[1:]
		}
	}
	return refused
}

// refused returns a reply for each command, with an error for each refused one. It returns nil if all are admitted.
func (s *Set) refused(cmds []*fsmpb.Command) []task.Reply {
	if s.cfg.Admission == nil {
		return nil
	}
	var replies []task.Reply
	for i, c := range cmds {
		err := s.cfg.Admission.Admit(c)
		if err != nil && replies == nil {
			replies = make([]task.Reply, len(cmds))
		}
		if err != nil {
			replies[i].Err = err
		}
	}
	return replies
}

// quota makes one step of the way in which the cluster keeps a quota.
func (s *Set) quota(ctx context.Context, id uint32, c *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	if s.cfg.Quotas == nil {
		return nil, fmt.Errorf("%w: this node keeps no quotas", task.ErrNotProposed)
	}
	return s.cfg.Quotas.Answer(ctx, id, c)
}

func get(ctx context.Context, s *shard.Shard, c *clusterpb.GetCall) (*fsmpb.Task, error) {
	return s.Get(ctx, c.Namespace, c.Id, c.Stale)
}

func list(ctx context.Context, s *shard.Shard, c *clusterpb.ListCall) (*fsmpb.ListPage, error) {
	return s.List(ctx, c.Query, c.Stale)
}

func outlook(ctx context.Context, s *shard.Shard, _ *clusterpb.OutlookCall) (*fsmpb.Outlook, error) {
	return s.Outlook(ctx)
}

func activity(ctx context.Context, s *shard.Shard, c *clusterpb.ActivityCall) (*fsmpb.Activity, error) {
	return s.Activity(ctx, c.AfterMs)
}

func namespaceUse(
	ctx context.Context, s *shard.Shard, c *clusterpb.NamespaceCall,
) (*clusterpb.NamespaceUse, error) {
	use, err := s.NamespaceUse(ctx, c.Namespace)
	return &clusterpb.NamespaceUse{Pending: use.Pending, Dead: use.Dead, Bytes: use.Bytes, Queues: use.Queues}, err
}

// queues counts the replica's tasks by queue. It leaves out queues without tasks.
func (s *Set) queues(
	ctx context.Context, replica *shard.Shard, c *clusterpb.QueuesCall,
) (_ *clusterpb.QueuesReply, err error) {
	names := []string{c.Queue}
	if c.All {
		if names, err = replica.Queues(ctx, c.Namespace); err != nil {
			return nil, err
		}
		state, _ := s.cfg.Control.Watch()
		names = listed(control.Queues(state, c.Namespace), names)
	}
	counts, err := replica.QueueCounts(ctx, c.Namespace, names...)
	return &clusterpb.QueuesReply{Counts: slices.DeleteFunc(counts, holdsNothing)}, err
}

// listed keeps the names that have a policy, and the first MaxUnnamed others. The first names over all shards are among
// the first names of each shard.
func listed(policies []*fsmpb.QueuePolicy, names []string) []string {
	unnamed := 0
	return slices.DeleteFunc(names, func(name string) bool {
		_, named := slices.BinarySearchFunc(policies, name, func(p *fsmpb.QueuePolicy, name string) int {
			return strings.Compare(p.Queue, name)
		})
		if named {
			return false
		}
		unnamed++
		return unnamed > MaxUnnamed
	})
}

func holdsNothing(c *fsmpb.QueueCounts) bool {
	return c.Scheduled+c.Ready+c.Firing+c.Leased+c.Retrying+c.Delivered+c.Dead+c.Cancelled == 0 && !c.AtLimit
}

// Lease begins a standing demand for tasks at the replica.
func (s *Set) Lease(id uint32, req task.LeaseRequest, c desk.Consumer) (consume.Demand, error) {
	replica, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	return replica.Lease(req, c)
}
