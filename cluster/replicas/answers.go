package replicas

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/consume"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/quotas"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// MaxUnnamed is the number of queues without a policy that are listed. Any caller may schedule into any queue, and so
// make queues.
const MaxUnnamed = control.MaxQueues

// Answers answers calls by the replicas on this node.
type Answers struct {
	// Find returns the replica of a shard. The error is a *task.NotLeaderError if this node has none.
	Find func(shard uint32) (*shard.Shard, error)
	// Moves gives access to the other shard of a move. Only PullSlots needs it.
	Moves func() Moves
	// Pace waits until so many bytes of moving tasks may have come here: see shard.PullSlots. Nil: no limit.
	Pace func(ctx context.Context, bytes int) (left int, err error)
	// Admit returns the reason to refuse a command about a namespace that takes no new work. Nil: every one does.
	Admit func(c *fsmpb.Command) error
	// Quotas keeps the quotas of namespaces. Nil: there are none.
	Quotas *quotas.Quotas
	// Policies returns the policies of a namespace's queues, sorted by queue.
	Policies func(namespace string) []*fsmpb.QueuePolicy
}

var _ calls.Shards = Answers{}

// Do passes commands to the replica, but for those that Admit or a quota refuses.
func (a Answers) Do(ctx context.Context, id uint32, cmds []*fsmpb.Command) []task.Reply {
	s, err := a.Find(id)
	if err != nil {
		return calls.Refuse(len(cmds), err)
	}
	refused, term, release := a.refused(cmds), uint64(0), func() {}
	if a.Quotas != nil {
		var full []error
		full, term, release = a.Quotas.Claim(ctx, s, cmds)
		for i, err := range full { // nil: none is refused
			if refused == nil {
				refused = make([]task.Reply, len(cmds))
			}
			refused[i].Err = cmp.Or(refused[i].Err, err)
		}
	}
	if refused == nil {
		return s.DoThen(ctx, term, cmds, release)
	}
	var admitted []*fsmpb.Command
	for i, c := range cmds {
		if refused[i].Err == nil {
			admitted = append(admitted, c)
		}
	}
	done := s.DoThen(ctx, term, admitted, release)
	for i := range refused {
		if refused[i].Err == nil {
			refused[i], done = done[0], done[1:]
		}
	}
	return refused
}

// refused returns a reply for each command, with the error of those that are not admitted, or nil if all are.
func (a Answers) refused(cmds []*fsmpb.Command) []task.Reply {
	if a.Admit == nil {
		return nil
	}
	var replies []task.Reply
	for i, c := range cmds {
		err := a.Admit(c)
		if err != nil && replies == nil {
			replies = make([]task.Reply, len(cmds))
		}
		if err != nil {
			replies[i].Err = err
		}
	}
	return replies
}

// Quota makes one step of the way in which the cluster keeps a quota.
func (a Answers) Quota(
	ctx context.Context, id uint32, call *clusterpb.QuotaCall,
) (*clusterpb.QuotaReply, error) {
	if a.Quotas == nil {
		return nil, fmt.Errorf("%w: this node keeps no quotas", task.ErrNotProposed)
	}
	return a.Quotas.Answer(ctx, id, call)
}

// Get asks the replica for a task.
func (a Answers) Get(ctx context.Context, id uint32, namespace, name string, stale bool) (*fsmpb.Task, error) {
	s, err := a.Find(id)
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, namespace, name, stale)
}

// List asks the replica for one page of tasks.
func (a Answers) List(ctx context.Context, id uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	s, err := a.Find(id)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, q, stale)
}

// Queues counts the replica's tasks by queue. It leaves out queues without tasks.
func (a Answers) Queues(ctx context.Context, id uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	s, err := a.Find(id)
	if err != nil {
		return nil, err
	}
	names := []string{ask.Queue}
	if ask.All {
		if names, err = s.Queues(ctx, ask.Namespace); err != nil {
			return nil, err
		}
		names = listed(a.Policies(ask.Namespace), names)
	}
	counts, err := s.QueueCounts(ctx, ask.Namespace, names...)
	return slices.DeleteFunc(counts, holdsNothing), err
}

// Outlook counts the tasks that wait in the replica's wheel.
func (a Answers) Outlook(ctx context.Context, id uint32) (*fsmpb.Outlook, error) {
	s, err := a.Find(id)
	if err != nil {
		return nil, err
	}
	return s.Outlook(ctx)
}

// Activity counts the events of the replica.
func (a Answers) Activity(ctx context.Context, id uint32, afterMs int64) (*fsmpb.Activity, error) {
	s, err := a.Find(id)
	if err != nil {
		return nil, err
	}
	return s.Activity(ctx, afterMs)
}

// NamespaceUse asks the replica for the use of a namespace.
func (a Answers) NamespaceUse(ctx context.Context, id uint32, namespace string) (task.NamespaceUse, error) {
	s, err := a.Find(id)
	if err != nil {
		return task.NamespaceUse{}, err
	}
	return s.NamespaceUse(ctx, namespace)
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

// Lend asks the replica for permits.
func (a Answers) Lend(ctx context.Context, owner uint32, ask shard.Borrow) (shard.Loan, error) {
	s, err := a.Find(owner)
	if err != nil {
		return shard.Loan{}, err
	}
	return s.Lend(ctx, ask)
}

// AskGroups asks the replica for permits of groups.
func (a Answers) AskGroups(ctx context.Context, owner uint32, ask shard.GroupsAsk) (shard.GroupsAnswer, error) {
	s, err := a.Find(owner)
	if err != nil {
		return shard.GroupsAnswer{}, err
	}
	return s.AskGroups(ctx, ask)
}

// LookGroups asks the replica where groups stand.
func (a Answers) LookGroups(ctx context.Context, id uint32, look shard.GroupsLook) (shard.GroupsStanding, error) {
	s, err := a.Find(id)
	if err != nil {
		return shard.GroupsStanding{}, err
	}
	return s.LookGroups(ctx, look)
}

// Lease begins a standing demand for tasks at the replica.
func (a Answers) Lease(id uint32, req task.LeaseRequest, c desk.Consumer) (consume.Demand, error) {
	s, err := a.Find(id)
	if err != nil {
		return nil, err
	}
	return s.Lease(req, c)
}
