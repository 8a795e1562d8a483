package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// MaxQueues is the number of queues that may have a policy. Queues without a policy need no entry and do not count. A
// change of the number changes the meaning of logs, and so needs another Version.
const MaxQueues = 4096

// SetQueue sets a queue's policy, and waits until the entry is committed. The error is a *task.FieldError if the policy
// breaks a limit or its namespace takes none, a *task.QueuesFullError if the queue would be one too many, and a
// *task.NotLeaderError on a node that is not the leader. The Change has Conflict set, and changes nothing, if set
// expects a version that the queue's policy does not have. SetQueue only reads the message.
func (g *Group) SetQueue(ctx context.Context, set *clusterpb.SetQueue) (Change, error) {
	policy := proto.CloneOf(set.GetPolicy())
	policy.Namespace, policy.Queue = names(policy.Namespace, policy.Queue)
	policy.Version = 0 // applying the entry sets it
	if err := task.CheckQueue(policy); err != nil {
		return Change{}, err
	}
	if g.group.Leads() { // the state of another node may be old
		if err := tenancy.CheckActive(g.State(), "namespace", policy.Namespace); err != nil {
			return Change{}, err
		}
		if err := checkShare(g.State(), policy); err != nil {
			return Change{}, err
		}
	}
	policy, err := g.seal(policy)
	if err != nil {
		return Change{}, err
	}
	checked := &clusterpb.SetQueue{Policy: policy, Expected: set.Expected}
	return g.changeQueue(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetQueue{SetQueue: checked},
	})
}

// DeleteQueue removes a queue's policy, and waits until the entry is committed; errors are those of SetQueue.
func (g *Group) DeleteQueue(ctx context.Context, namespace, queue string) (Change, error) {
	namespace, queue = names(namespace, queue)
	del := &clusterpb.DeleteQueue{Namespace: namespace, Queue: queue}
	return g.changeQueue(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_DeleteQueue{DeleteQueue: del},
	})
}

// decide commits an entry and tells the other nodes at once: a caller may go on at another node, and calls on slots
// that move wait until their node knows the new owner.
func (g *Group) decide(ctx context.Context, entry *clusterpb.ControlEntry) (any, error) {
	answer, err := g.propose(ctx, entry)
	if err == nil {
		g.group.Announce()
	}
	return answer, err
}

func (g *Group) changeQueue(ctx context.Context, entry *clusterpb.ControlEntry) (Change, error) {
	answer, err := g.decide(ctx, entry)
	if err != nil {
		return Change{}, err
	}
	change, _ := answer.(Change) // every other answer is an error, returned above
	return change, nil
}

func names(namespace, queue string) (string, string) {
	return cmp.Or(namespace, task.DefaultNamespace), cmp.Or(queue, task.DefaultQueue)
}

// errTooMany refuses a policy beyond MaxQueues; its text is for the caller.
var errTooMany = &task.QueuesFullError{Limit: fmt.Sprint(MaxQueues)}

// checkShare returns an error for a new policy beyond the share of its namespace: see tenancy.Share.
func checkShare(s *clusterpb.ControlState, policy *fsmpb.QueuePolicy) error {
	share := tenancy.Share(s, MaxQueues)
	if share == MaxQueues || len(Queues(s, policy.Namespace)) < share || Queue(s, policy.Namespace, policy.Queue) != nil {
		return nil
	}
	return &task.QueuesFullError{Limit: fmt.Sprintf("%d of one namespace", share)}
}

// applySetQueue stores a policy that the leader has checked. It does not check the policy's fields, since their limits
// may differ from build to build. The policy belongs to the entry, and no other code holds it.
func applySetQueue(s *clusterpb.ControlState, set *clusterpb.SetQueue) error {
	policy := set.GetPolicy()
	if policy.GetNamespace() == "" || policy.GetQueue() == "" {
		return errors.New("a policy names its namespace and its queue")
	}
	if s.ClusterKey != "" && len(policy.Secrets) > 0 {
		return errors.New("the cluster keeps no secrets in the clear")
	}
	at, found := findQueue(s, policy.Namespace, policy.Queue)
	switch {
	case set.Expected != nil && *set.Expected != Queue(s, policy.Namespace, policy.Queue).GetVersion():
		return errConflict
	case found && equalPolicies(s.Queues[at], policy):
		return nil
	case !found && len(s.Queues) >= MaxQueues:
		return errTooMany
	}
	s.QueuesVersion++
	policy.Version = s.QueuesVersion
	s.Queues = slices.Clone(s.Queues)
	if found {
		s.Queues[at] = policy
	} else {
		s.Queues = slices.Insert(s.Queues, at, policy)
	}
	return nil
}

func applyDeleteQueue(s *clusterpb.ControlState, del *clusterpb.DeleteQueue) error {
	if at, found := findQueue(s, del.GetNamespace(), del.GetQueue()); found {
		s.QueuesVersion++
		s.Queues = slices.Delete(slices.Clone(s.Queues), at, at+1)
	}
	return nil
}

func answerSetQueue(c *Change, before, after *clusterpb.ControlState, set *clusterpb.SetQueue) {
	_, c.Existed = findQueue(before, set.GetPolicy().GetNamespace(), set.GetPolicy().GetQueue())
	c.Version = after.QueuesVersion
}

func answerDeleteQueue(c *Change, before, after *clusterpb.ControlState, del *clusterpb.DeleteQueue) {
	_, c.Existed = findQueue(before, del.GetNamespace(), del.GetQueue())
	c.Version = after.QueuesVersion
}

// equalPolicies compares everything but the version, which it copies from old to policy.
func equalPolicies(old, policy *fsmpb.QueuePolicy) bool {
	policy.Version = old.Version
	return proto.Equal(old, policy)
}

func findQueue(s *clusterpb.ControlState, namespace, queue string) (at int, found bool) {
	return slices.BinarySearchFunc(s.Queues, namespace, func(p *fsmpb.QueuePolicy, _ string) int {
		return cmp.Or(cmp.Compare(p.Namespace, namespace), cmp.Compare(p.Queue, queue))
	})
}

// Queue returns a queue's policy, or nil if it has none. Empty names stand for the default ones.
func Queue(s *clusterpb.ControlState, namespace, queue string) *fsmpb.QueuePolicy {
	namespace, queue = names(namespace, queue)
	if at, found := findQueue(s, namespace, queue); found {
		return s.Queues[at]
	}
	return nil
}

// Queues returns the policies of one namespace, sorted by queue. The caller must not change them.
func Queues(s *clusterpb.ControlState, namespace string) []*fsmpb.QueuePolicy {
	namespace = cmp.Or(namespace, task.DefaultNamespace)
	first, _ := findQueue(s, namespace, "")
	end, _ := findQueue(s, namespace+"\x00", "") // the next possible namespace
	return s.Queues[first:end:end]
}
