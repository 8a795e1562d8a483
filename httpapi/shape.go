package httpapi

// OperationRequest is what an operator asks of the cluster.
type OperationRequest struct {
	ID          string // of the operation, if the call has an idempotency key; empty: a new one
	Kind        string // drain, rest, resume, remove, replace, replication, split, move_slots, balance or keep_slots
	Node        string // id or name, if Kind is about a node
	Replication uint32 // replication factor, if Kind is replication
	Shard       uint32 // shard to split, if Kind is split
	// To is the shard that gets the slots if Kind is move_slots, and the number of shards if Kind is balance; 0: as many
	// as there are.
	To      uint32
	Slots   SlotList // if Kind is move_slots
	Preview bool     // nothing begins
}

// OperationView is an operation on the nodes, replicas or slots of the cluster, with its progress.
type OperationView struct {
	ID             string   `json:"id"`
	Kind           string   `json:"kind"`
	Node           string   `json:"node,omitempty"`        // id
	NodeName       string   `json:"node_name,omitempty"`   // at the beginning
	Replication    uint32   `json:"replication,omitempty"` // factor that was asked for
	Shard          uint32   `json:"shard,omitempty"`       // that is split
	To             uint32   `json:"to,omitempty"`          // shard that gets the slots; number of shards of a balance
	Slots          SlotList `json:"slots,omitempty"`       // that move
	State          string   `json:"state"`                 // running, done or stopped
	BeganAt        Instant  `json:"began_at"`
	EndedAt        *Instant `json:"ended_at"`
	Total          uint32   `json:"total"` // replicas or slots to move, or leaderships to give away
	Done           uint32   `json:"done"`
	Percent        float64  `json:"percent"`          // copies under way count in part
	BytesLeft      uint64   `json:"bytes_left"`       // to be copied, as far as known
	BytesPerSecond uint64   `json:"bytes_per_second"` // over the last seconds
	TasksCopied    uint64   `json:"tasks_copied"`     // by the moves of slots under way
	Waits          []string `json:"waits"`            // reasons why it does not go on; empty: it does, or has ended
	Detail         string   `json:"detail,omitempty"` // why it was stopped
	Cause          string   `json:"cause,omitempty"`  // why the cluster has begun it by itself; empty: it was asked for
}

// PlanView is the preview of an operation.
type PlanView struct {
	Kind        string     `json:"kind"`
	Node        string     `json:"node,omitempty"`
	NodeName    string     `json:"node_name,omitempty"`
	Replication uint32     `json:"replication,omitempty"`
	Shard       uint32     `json:"shard,omitempty"`
	To          uint32     `json:"to,omitempty"`
	Slots       SlotList   `json:"slots,omitempty"`
	Total       uint32     `json:"total"`
	Bytes       uint64     `json:"bytes"` // that would be copied, as far as known
	Steps       []PlanStep `json:"steps"`
}

// PlanStep is one move of a replica, of a leadership, or of slots.
type PlanStep struct {
	Shard    uint32 `json:"shard"`
	Action   string `json:"action"` // add, lead or remove; of slots: split (to a new shard) or move
	Node     string `json:"node"`   // id; empty: slots move
	NodeName string `json:"node_name"`
	Bytes    uint64 `json:"bytes"`           // copied by this step, about
	From     uint32 `json:"from,omitempty"`  // shard that gives the slots
	Slots    uint32 `json:"slots,omitempty"` // number of slots that move
}

// SlotMoveView is a move of slots from one shard to another, under way.
type SlotMoveView struct {
	Number      uint64 `json:"number"`
	From        uint32 `json:"from"`
	To          uint32 `json:"to"`
	Slots       uint32 `json:"slots"` // number of slots
	State       string `json:"state"` // copying, opening, giving_up
	Step        string `json:"step"`  // that is under way; empty: the control group's leader is not known
	Tries       uint32 `json:"tries"` // moves of the same slots that were given up before
	TasksCopied uint64 `json:"tasks_copied"`
	BytesCopied uint64 `json:"bytes_copied"`
	Sealed      bool   `json:"sealed"` // calls on the slots wait for the target
	Waits       string `json:"waits"`  // why it failed last, unless it has gone on since; empty: it goes on
}

// AutoSplitView describes the shards that split by themselves.
type AutoSplitView struct {
	Bytes    uint64   `json:"bytes"`    // size of a shard from which on it splits
	Shards   uint32   `json:"shards"`   // number of shards from which on none does
	Outgrown []uint32 `json:"outgrown"` // shards above the size
	Waits    string   `json:"waits"`    // why none of these splits now; empty: one does, or there is none
}

// Replication is the number of replicas of the shards.
type Replication struct {
	Wanted int `json:"wanted"`
	Fewest int `json:"fewest"` // of the shard that has the fewest
}

// ImpossibleError refuses an operation that cannot be carried out as things are. Nothing has changed.
type ImpossibleError struct{ Reason string }

func (e *ImpossibleError) Error() string { return e.Reason }

// NoNodeError refuses an operation on a node that the cluster does not have.
type NoNodeError struct{ Reason string }

func (e *NoNodeError) Error() string { return e.Reason }
