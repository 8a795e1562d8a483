package restore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// count counts a task by its state, and a due task by its queue.
func (r *run) count(t *fsmpb.SnapshotTask) {
	state := t.Task.State
	r.report.Tasks[strings.ToLower(strings.TrimPrefix(state.String(), "STATE_"))]++
	switch state {
	case fsmpb.State_STATE_FIRING:
		r.report.GivenBack++
		r.queueOf(t).Before++
	case fsmpb.State_STATE_READY:
		r.queueOf(t).Before++
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		if t.WheelDueMs <= r.cfg.Now.UnixMilli() {
			r.report.Overdue++
			r.queueOf(t).Since++
		}
	case fsmpb.State_STATE_REPEATING:
		if isOverdue(t, r.cfg.Now.UnixMilli()) {
			r.queueOf(t).Since++
		}
	}
}

// isOverdue reports whether a schedule may have had an occurrence by an instant. One without coming instants may: the
// leader had yet to compute them.
func isOverdue(t *fsmpb.SnapshotTask, nowMs int64) bool {
	if t.InWheel || t.Parked {
		return t.WheelDueMs <= nowMs
	}
	return !t.Task.Series.GetPaused() && !t.Task.Series.GetComplete()
}

func (r *run) queueOf(t *fsmpb.SnapshotTask) *QueueDue {
	name := [2]string{task.CanonicalNamespace(t.Task.Namespace), cmp.Or(t.Task.Spec.GetQueue(), task.DefaultQueue)}
	due := r.queues[name]
	if due == nil {
		name[0], name[1] = strings.Clone(name[0]), strings.Clone(name[1]) // the message does not last
		due = &QueueDue{Namespace: name[0], Queue: name[1]}
		r.queues[name] = due
	}
	return due
}

// settle completes the shards, and treats the overdue tasks.
func (r *run) settle() error {
	reason := fmt.Sprintf("fell due after the backup of %s and before its restore", r.report.MadeAt)
	for _, made := range r.made {
		r.shards = append(r.shards, made.Machine())
	}
	r.made = nil
	if r.cfg.Overdue == Dead {
		for _, s := range r.shards {
			r.report.Buried += s.BuryOverdue(r.cfg.Now.UnixMilli(), reason)
		}
	}
	r.state = proto.CloneOf(r.header.Control)
	if r.cfg.Overdue == Hold {
		if err := r.hold(); err != nil {
			return err
		}
	}
	for _, q := range r.due() {
		r.report.Queues = append(r.report.Queues, *q)
	}
	return nil
}

// due returns the queues with due tasks, by name.
func (r *run) due() []*QueueDue {
	return slices.SortedFunc(maps.Values(r.queues), func(a, b *QueueDue) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Queue, b.Queue))
	})
}

// hold pauses the queues with due tasks: in their policies, and in the shards' rules, which hold the queues until a
// shard's leader knows the policies.
func (r *run) hold() error {
	var rules []*fsmpb.QueueRule
	for _, q := range r.due() {
		policy, err := policyOf(r.state, q.Namespace, q.Queue)
		if err != nil {
			return err
		}
		if policy.Paused {
			continue
		}
		q.Paused, policy.Paused = true, true
		r.state.QueuesVersion++
		policy.Version = r.state.QueuesVersion
		rules = append(rules, fsm.RuleOf(policy))
	}
	entry := &fsmpb.Entry{
		Version: fsm.CommandVersion, AtMs: r.cfg.Now.UnixMilli(),
		Commands: []*fsmpb.Command{{Op: &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{Rules: rules}}}},
	}
	data, err := entry.MarshalVT()
	if err != nil {
		return err
	}
	for _, s := range r.shards {
		if _, err := s.Apply(data, false); err != nil {
			return err
		}
	}
	return nil
}

// policyOf returns the policy of a queue in a state, which may be changed. It makes one if the queue has none.
func policyOf(state *clusterpb.ControlState, namespace, queue string) (*fsmpb.QueuePolicy, error) {
	at, found := slices.BinarySearchFunc(state.Queues, [2]string{namespace, queue},
		func(p *fsmpb.QueuePolicy, name [2]string) int {
			return cmp.Or(strings.Compare(p.Namespace, name[0]), strings.Compare(p.Queue, name[1]))
		})
	if found {
		return state.Queues[at], nil
	}
	if len(state.Queues) >= control.MaxQueues {
		return nil, fmt.Errorf("queue %q cannot be paused: %d queues have a policy, as many as may; restore with "+
			"--overdue dead or fire", queue, control.MaxQueues)
	}
	policy := &fsmpb.QueuePolicy{Namespace: namespace, Queue: queue}
	state.Queues = slices.Insert(state.Queues, at, policy)
	return policy, nil
}
