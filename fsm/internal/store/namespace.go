package store

import (
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// namespace counts the tasks of one namespace. It exists as long as one of its queues does.
type namespace struct {
	name   string
	queues int // in use, the default queue of the default namespace included

	spaceCounts
	copies spaceCounts // the part of copied tasks, which are not counted yet
}

// spaceCounts counts the tasks of a namespace.
type spaceCounts struct {
	tasks byState
	bytes int64 // of all tasks but the delivered and the cancelled ones
}

// add adds n, 1 or -1, tasks in one state that hold some bytes.
func (c *spaceCounts) add(state uint8, held, n int) {
	c.tasks[state] += n
	c.grow(state, n*held)
}

// grow adds to the bytes of a task in one state.
func (c *spaceCounts) grow(state uint8, bytes int) {
	if s := fsmpb.State(state); s != fsmpb.State_STATE_DELIVERED && s != fsmpb.State_STATE_CANCELLED {
		c.bytes += int64(bytes)
	}
}

// join returns a namespace and counts one more queue of it.
func (qs *Queues) join(name string) *namespace {
	n := qs.spaces[name]
	if n == nil {
		n = &namespace{name: strings.Clone(name)}
		qs.spaces[n.name] = n
	}
	n.queues++
	return n
}

// leave counts one queue less of a namespace, and removes a namespace without queues.
func (qs *Queues) leave(n *namespace) {
	if n.queues--; n.queues == 0 {
		delete(qs.spaces, n.name)
	}
}

// Use returns the tasks and bytes of a namespace. Its cost does not depend on the number of tasks or queues.
// Replicas share different values between tasks, and encode their numbers, so the bytes differ a little from replica to
// replica. Copies of moving tasks are left out, as in Counts.
func (qs *Queues) Use(name string) task.NamespaceUse {
	use := task.NamespaceUse{Namespace: task.CanonicalNamespace(name)}
	n := qs.spaces[use.Namespace]
	if n == nil {
		return use
	}
	for state, tasks := range n.tasks {
		live := uint64(max(0, tasks-n.copies.tasks[state]))
		switch fsmpb.State(state) {
		case fsmpb.State_STATE_DEAD:
			use.Dead += live
		case fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_CANCELLED:
		default:
			use.Pending += live
		}
	}
	use.Bytes = uint64(max(0, n.bytes-n.copies.bytes))
	use.Queues = uint64(n.queues)
	if q := qs.at(0); q.space == n && q.rule == noRule && !q.holds() {
		use.Queues--
	}
	return use
}
