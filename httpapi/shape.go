package httpapi

// OperationRequest is what an operator asks of the cluster.
type OperationRequest struct {
	ID          string // of the operation, if the call has an idempotency key; empty: a new one
	Kind        string // drain, rest, resume, remove, replace or replication
	Node        string // id or name, unless Kind is replication
	Replication uint32 // replication factor, if Kind is replication
	Preview     bool   // nothing begins
}

// OperationView is an operation on the nodes or replicas of the cluster, with its progress.
type OperationView struct {
	ID             string   `json:"id"`
	Kind           string   `json:"kind"`
	Node           string   `json:"node,omitempty"`        // id
	NodeName       string   `json:"node_name,omitempty"`   // at the beginning
	Replication    uint32   `json:"replication,omitempty"` // factor that was asked for
	State          string   `json:"state"`                 // running, done or stopped
	BeganAt        Instant  `json:"began_at"`
	EndedAt        *Instant `json:"ended_at"`
	Total          uint32   `json:"total"` // replicas to move, add or remove, or leaderships to give away
	Done           uint32   `json:"done"`
	Percent        float64  `json:"percent"`          // copies under way count in part
	BytesLeft      uint64   `json:"bytes_left"`       // to be copied, as far as known
	BytesPerSecond uint64   `json:"bytes_per_second"` // over the last seconds
	Waits          []string `json:"waits"`            // reasons why it does not go on; empty: it does, or has ended
	Detail         string   `json:"detail,omitempty"` // why it was stopped
}

// PlanView is the preview of an operation.
type PlanView struct {
	Kind        string     `json:"kind"`
	Node        string     `json:"node,omitempty"`
	NodeName    string     `json:"node_name,omitempty"`
	Replication uint32     `json:"replication,omitempty"`
	Total       uint32     `json:"total"`
	Bytes       uint64     `json:"bytes"` // that would be copied, as far as known
	Steps       []PlanStep `json:"steps"`
}

// PlanStep is one move of a replica or of a leadership.
type PlanStep struct {
	Shard    uint32 `json:"shard"`
	Action   string `json:"action"` // add, lead or remove
	Node     string `json:"node"`   // id
	NodeName string `json:"node_name"`
	Bytes    uint64 `json:"bytes"` // copied by this step, about
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
