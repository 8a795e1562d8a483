package view

import (
	"strconv"
	"strings"
)

// Slots is the range of slots from First to End-1. A task's slot is the slot of its id.
type Slots struct {
	First uint32 `json:"first"`
	End   uint32 `json:"end"`
}

// SlotList is ranges of slots in their order.
type SlotList []Slots

// String returns the ranges with both of their ends, as in "0-511,1024".
func (l SlotList) String() string {
	parts := make([]string, len(l))
	for i, r := range l {
		if parts[i] = strconv.Itoa(int(r.First)); r.End > r.First+1 {
			parts[i] += "-" + strconv.Itoa(int(r.End)-1)
		}
	}
	return strings.Join(parts, ",")
}

// OperationKind is what an operation does.
type OperationKind string

// OperationState is the state of an operation.
type OperationState string

// BulkOp is the call that a bulk operation makes on each task or schedule.
type BulkOp string

// TaskState is the state of a task.
type TaskState string

// Operation is a change of the cluster's shape, or of many tasks, that takes a while, with its progress.
type Operation struct {
	ID             string         `json:"id"`
	Kind           OperationKind  `json:"kind"`
	Namespace      string         `json:"namespace,omitempty"` // that is deleted, or of a bulk operation's tasks
	Node           string         `json:"node,omitempty"`      // a node's ID; empty: it is about the whole cluster
	NodeName       string         `json:"node_name,omitempty"` // at the beginning
	Replication    int            `json:"replication,omitempty"`
	Shard          int            `json:"shard,omitempty"` // that is split
	To             int            `json:"to,omitempty"`    // shard that gets the slots; number of shards of a balance
	Slots          string         `json:"slots,omitempty"` // that move: "0-511,1024"
	State          OperationState `json:"state"`
	BeganAt        Instant        `json:"began_at"`
	EndedAt        *Instant       `json:"ended_at"` // nil: it is under way
	Total          int            `json:"total"`    // replicas or slots to move, leaderships to give away, or tasks
	Done           int            `json:"done"`
	Percent        float64        `json:"percent"`          // copies under way count in part; 100 only at the end
	BytesLeft      uint64         `json:"bytes_left"`       // to be copied, as far as known
	BytesPerSecond uint64         `json:"bytes_per_second"` // over the last seconds
	TasksCopied    uint64         `json:"tasks_copied"`     // by the moves of slots under way
	Waits          []string       `json:"waits"`            // reasons why it does not go on; empty: it does, or has ended
	Detail         string         `json:"detail,omitempty"` // why it was stopped
	Cause          string         `json:"cause,omitempty"`  // why the cluster began it by itself; empty: it was asked for

	// The fields below are those of a bulk operation.
	Op        BulkOp         `json:"op,omitempty"`
	Of        string         `json:"of,omitempty"` // schedules; empty: tasks
	Filter    *Filter        `json:"filter,omitempty"`
	All       bool           `json:"all,omitempty"`     // the filter has no condition
	By        string         `json:"by,omitempty"`      // of a move: a duration
	FireAt    *Instant       `json:"fire_at,omitempty"` // of a move: to which the tasks move
	Patched   []string       `json:"patched,omitempty"` // by a patch: target, retry, labels; as in repeat.cron
	Note      string         `json:"note,omitempty"`    // of a pause or a resume of schedules
	PerSecond int            `json:"per_second,omitempty"`
	Matched   *int           `json:"matched,omitempty"` // tasks that passed the filter so far
	Outcomes  map[string]int `json:"outcomes,omitzero"` // tasks by outcome, so far; each task once
}

// Filter is the filter of a bulk operation. All its conditions hold for the tasks.
type Filter struct {
	Queue     string      `json:"queue,omitempty"`
	Prefix    string      `json:"prefix,omitempty"` // of the id
	Labels    []string    `json:"label,omitempty"`  // name:value
	States    []TaskState `json:"state,omitempty"`
	DueAfter  *Instant    `json:"due_after,omitempty"` // the task fires then or later
	DueBefore *Instant    `json:"due_before,omitempty"`
}

// Plan is the preview of an operation.
type Plan struct {
	Kind        OperationKind `json:"kind"`
	Node        string        `json:"node,omitempty"`
	NodeName    string        `json:"node_name,omitempty"`
	Replication int           `json:"replication,omitempty"`
	Shard       int           `json:"shard,omitempty"`
	To          int           `json:"to,omitempty"`
	Slots       string        `json:"slots,omitempty"`
	Total       int           `json:"total"`
	Bytes       uint64        `json:"bytes"` // to be copied, as far as known
	Steps       []PlanStep    `json:"steps"`
}

// PlanStep is one move of a replica, of a leadership, or of slots.
type PlanStep struct {
	Shard    uint32 `json:"shard"`
	Action   string `json:"action"` // add, lead or remove; of slots: split (to a new shard) or move
	Node     string `json:"node"`   // a node's ID; empty: slots move
	NodeName string `json:"node_name"`
	Bytes    uint64 `json:"bytes"`           // copied by this step, about
	From     uint32 `json:"from,omitempty"`  // shard that gives the slots
	Slots    int    `json:"slots,omitempty"` // number of slots that move
}
