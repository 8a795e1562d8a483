package control

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// MaxQueues is the number of queues that may have a policy. Queues without a policy need no entry and do not count. A
// change of the number changes the meaning of logs, and so needs another Version.
const MaxQueues = 4096

// prepareSetQueue checks a policy, and seals its secrets.
func prepareSetQueue(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	set, state := c.Entry.GetSetQueue(), r.group.State()
	policy := set.GetPolicy()
	if policy == nil {
		return nil, incomplete("a policy")
	}
	policy.Namespace, policy.Queue = names(policy.Namespace, policy.Queue)
	policy.Version = 0 // applying the entry sets it
	if err := task.CheckQueue(policy); err != nil {
		return nil, err
	}
	if err := checkActive(state, "namespace", policy.Namespace); err != nil {
		return nil, err
	}
	if err := checkShare(state, policy); err != nil {
		return nil, err
	}
	var err error
	set.Policy, err = r.group.seal(policy)
	return nil, err
}

func prepareDeleteQueue(_ *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	del := c.Entry.GetDeleteQueue()
	del.Namespace, del.Queue = names(del.Namespace, del.Queue)
	return nil, nil
}

func names(namespace, queue string) (string, string) {
	return cmp.Or(namespace, task.DefaultNamespace), cmp.Or(queue, task.DefaultQueue)
}

// errTooMany refuses a policy beyond MaxQueues; its text is for the caller.
var errTooMany = &task.QueuesFullError{Limit: fmt.Sprint(MaxQueues)}

// checkShare returns an error for a new policy beyond the share of its namespace: see share.
func checkShare(s *clusterpb.ControlState, policy *fsmpb.QueuePolicy) error {
	share := share(s, MaxQueues)
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

func answerSetQueue(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, set *clusterpb.SetQueue) {
	_, c.Existed = findQueue(before, set.GetPolicy().GetNamespace(), set.GetPolicy().GetQueue())
	c.QueuesVersion = after.QueuesVersion
}

func answerDeleteQueue(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, del *clusterpb.DeleteQueue) {
	_, c.Existed = findQueue(before, del.GetNamespace(), del.GetQueue())
	c.QueuesVersion = after.QueuesVersion
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
