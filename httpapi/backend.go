package httpapi

import (
	"context"
	"io"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Backend carries out calls, wherever in the cluster their tasks live. Its methods may be called concurrently. Errors
// are package task's, or a context's.
type Backend interface {
	Keys
	Namespaces
	Calendars
	Outlooks
	Bulk

	// Do carries out commands and returns a reply for each, in order. Commands about one id are applied in the given
	// order. Once one of them is refused with task.ErrOverloaded, the later ones about that id are refused too.
	//
	// Do writes into the commands the values that only the shard's leader decides (until when a tombstone is kept), and
	// nothing else. It may still be sending commands after it returned, so the caller must not change them any more. The
	// caller may pass to Do again only the commands that it refused with task.ErrOverloaded.
	Do(ctx context.Context, commands []*fsmpb.Command) []task.Reply

	// Get reads a task, tombstones included, and returns nil without an error if there is none. The read is linearizable,
	// unless stale asks for the nearest replica's state.
	Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error)

	// List reads one page of tasks over all slots. The page is bounded in bytes as well as in tasks.
	List(ctx context.Context, query *fsmpb.ListQuery) (*fsmpb.ListPage, error)

	// Lease leases due tasks of a queue's pull lane to a consumer, from all shards: at most the request's Max, within a
	// bound on their total bytes (a single task always fits). Lease waits for the first task. When the context ends, it
	// returns the tasks granted so far, or none, without an error. With the request's Look it returns no tasks as soon as
	// every shard's leader has none. The caller settles or releases each task, or lets its lease end.
	Lease(ctx context.Context, request task.LeaseRequest) ([]*fsmpb.Task, error)

	// ReceiptKey returns the secret under which all nodes of the cluster sign the receipts of leases. It is empty until
	// the node knows the cluster's state.
	ReceiptKey() []byte

	// PutQueue replaces a queue's policy. It returns once every reachable leader applies the policy, or after a second.
	PutQueue(ctx context.Context, policy *fsmpb.QueuePolicy) (created bool, err error)

	// UpdateQueue replaces a queue's policy by the result of change, and returns it when PutQueue would return. change
	// gets the present policy, nil for none, and must not write to it. change may run more than once, so that no
	// concurrent update is lost. An error of change ends the call.
	UpdateQueue(ctx context.Context, namespace, queue string,
		change func(current *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error)) (*fsmpb.QueuePolicy, error)

	// DeleteQueue deletes a queue's policy. The queue's tasks stay, under the default policy.
	DeleteQueue(ctx context.Context, namespace, queue string) (existed bool, err error)

	// Queue returns a queue's policy, nil if it has none, and its counts, summed over the shards.
	Queue(ctx context.Context, namespace, queue string) (*fsmpb.QueuePolicy, *fsmpb.QueueCounts, error)

	// Queues returns the queues that have a policy or a task, tombstones included, sorted by name.
	Queues(ctx context.Context, namespace string) ([]task.Queue, error)

	// Backup writes a backup of the cluster to w, at rate bytes a second at most; 0: no limit. An error before the first
	// byte is package task's.
	Backup(ctx context.Context, w io.Writer, rate int64) (BackupSummary, error)

	// NewJoinToken makes a one-time token by which one new node may join the cluster within its life.
	NewJoinToken(ctx context.Context, life time.Duration) (NewJoinToken, error)

	// JoinTokens returns the one-time tokens that this node knows, by id.
	JoinTokens() []JoinToken

	// RemoveJoinToken removes a one-time token.
	RemoveJoinToken(ctx context.Context, id string) (existed bool, err error)

	// Cluster returns this node's view of the cluster's nodes and shards.
	Cluster(ctx context.Context) (ClusterView, error)

	// Begin begins an operation and returns it, or returns the plan of a preview. It returns an operation that has the
	// request's id, or an equal one that is under way, instead. The error may also be an *ImpossibleError or a
	// *NoNodeError.
	Begin(ctx context.Context, r OperationRequest) (*OperationView, *PlanView, error)

	// Doctor returns the troubles of the cluster, the gravest first. It also works without a quorum.
	Doctor(ctx context.Context) []Finding

	// Self returns the id of this node's cluster, empty if it has none yet, and the node's id.
	Self() (clusterID, nodeID string)

	// Map returns this node's present view of slots, leaders and addresses, without the Namespace. It asks no other node.
	Map() MapView

	// MapVersion returns a name for this node's present view of slots, leaders and addresses. A different view has a
	// different name. Each batch calls it.
	MapVersion() string

	// Ready returns nil once this node knows the map and its replicas have caught up once, or else an error that names the
	// missing part.
	Ready() error
}

// JoinToken describes a one-time token of a new node.
type JoinToken struct {
	ID       string    `json:"id"`
	Created  time.Time `json:"created_at"`
	Expires  time.Time `json:"expires_at"`
	UsedBy   string    `json:"used_by,omitempty"` // id of the node that it let in; empty: none yet
	UsedName string    `json:"used_by_name,omitempty"`
	Used     time.Time `json:"used_at,omitzero"`
}

// NewJoinToken is the answer to POST /v1/nodes/tokens. No other answer has the token.
type NewJoinToken struct {
	JoinToken
	Token    string `json:"token"`
	Required bool   `json:"required"` // a new node needs a token, since the nodes show certificates
}

// ClusterView is the answer to GET /v1/cluster.
type ClusterView struct {
	ClusterID string      `json:"cluster_id"`
	Map       string      `json:"map"` // its version, as in the header of the node's batches
	Nodes     []NodeView  `json:"nodes"`
	Shards    []ShardView `json:"shards"`

	CommandVersion uint32       `json:"command_version"` // newest one that the cluster may write
	Control        ControlView  `json:"control"`
	Backups        *BackupsView `json:"backups,omitempty"` // made on a schedule; nil: no node has begun one

	Replication Replication     `json:"replication"`
	Waits       string          `json:"waits"`      // why the cluster has not the shape that it should have; empty: it has
	Operations  []OperationView `json:"operations"` // those under way and those that ended last
	SlotMoves   []SlotMoveView  `json:"slot_moves"` // under way

	AutoSplit *AutoSplitView `json:"auto_split,omitempty"` // nil: no shard splits by itself, or it is not known
}

// ControlView is the control group, whose leader plans all moves.
type ControlView struct {
	Leader string   `json:"leader"` // node id; empty: none known
	Term   uint64   `json:"term"`
	Voters []string `json:"voters"` // node ids
}

// NodeView is one node as the answering node knows it.
type NodeView struct {
	ID            string  `json:"id"`
	Name          string  `json:"name"`
	HTTPAddr      string  `json:"http_addr"`
	HTTPURL       string  `json:"http_url"` // HTTPAddr with its scheme
	Zone          string  `json:"zone"`     // empty: a zone of its own
	Weight        int     `json:"weight"`   // its part of replicas and leaderships; 0: it runs a build without weights
	Alive         bool    `json:"alive"`
	ClockOffsetMs float64 `json:"clock_offset_ms"` // its clock minus the answering node's
	DiskLow       bool    `json:"disk_low"`        // it leads only if no other node can
	MemoryFull    bool    `json:"memory_full"`     // shards with a replica on it take no more tasks

	CommandVersion uint32 `json:"command_version"` // newest one that it reads, or the one that it holds

	PeerAddr  string   `json:"peer_addr"`
	AwaySince *Instant `json:"away_since"` // nil: it answers the control group's leader, or that one is not known
	Order     string   `json:"order"`      // work, drain, rest, remove or replace
	Replicas  int      `json:"replicas"`
	Leads     int      `json:"leads"` // shards that it leads
	Build     string   `json:"build"` // version of its binary; empty if it does not answer
	DiskFree  uint64   `json:"disk_free"`
	DiskTotal uint64   `json:"disk_total"` // bytes; 0 if not known
}

// ShardView is one shard as the answering node knows it.
type ShardView struct {
	ID       uint32        `json:"id"`
	Leader   string        `json:"leader"` // node id; empty: none known
	Term     uint64        `json:"term"`
	Replicas []ReplicaView `json:"replicas"`
	Tasks    uint64        `json:"tasks"`
	Slots    []SlotRange   `json:"slots"` // the shard's slots

	Target []string `json:"target"` // ids of the nodes that should hold its replicas; empty: they do
	Waits  string   `json:"waits"`  // why its move does not go on; empty: it does, or there is none
	Step   string   `json:"step"`   // step of its move that is under way; empty: none
	Bytes  uint64   `json:"bytes"`  // memory of its tasks, about the size of a copy
}

// SlotRange is the range of slots from First to End-1.
type SlotRange struct {
	First uint32 `json:"first"`
	End   uint32 `json:"end"`
}

// ReplicaView is one replica of a shard.
type ReplicaView struct {
	Node    string `json:"node"`
	State   string `json:"state"`   // leader, follower, learner, or unknown
	Applied uint64 `json:"applied"` // log index

	// Commands is the number of commands that the replica had carried out at that index, and Hash is the hash of its
	// state. Replicas with the same Applied must have the same Commands and Hash, or they have diverged.
	Commands uint64 `json:"commands"`
	Hash     string `json:"hash"`

	// Diverged means that the replica's state differs from another replica's at the same index, and is not known to be the
	// majority's. All nodes compare all the time.
	Diverged bool `json:"diverged"`

	Voter bool `json:"voter"`
	// Received is the part of the leader's snapshot, from 0 to 1, that has arrived at the replica; nil: none arrives.
	Received *float64 `json:"received,omitempty"`
}

// Finding is one trouble of the cluster, with the commands that help.
type Finding struct {
	Severity string   `json:"severity"` // critical, warning or note
	Code     string   `json:"code"`     // stable; docs/reference/doctor.md has a section for each
	Summary  string   `json:"summary"`
	Do       []string `json:"do"`
}

// normalise replaces nil lists by empty ones, so that they are [] in JSON and not null.
func (v *ClusterView) normalise() {
	v.Control.Voters = append([]string{}, v.Control.Voters...)
	if v.Nodes == nil {
		v.Nodes = []NodeView{}
	}
	if v.Shards == nil {
		v.Shards = []ShardView{}
	}
	if v.Operations == nil {
		v.Operations = []OperationView{}
	}
	if v.SlotMoves == nil {
		v.SlotMoves = []SlotMoveView{}
	}
	for i := range v.Operations {
		v.Operations[i].Waits = append([]string{}, v.Operations[i].Waits...)
	}
	for i := range v.Shards {
		if v.Shards[i].Replicas == nil {
			v.Shards[i].Replicas = []ReplicaView{}
		}
		v.Shards[i].Target = append([]string{}, v.Shards[i].Target...)
		if v.Shards[i].Slots == nil {
			v.Shards[i].Slots = []SlotRange{}
		}
	}
}

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

// OperationView is an operation on the nodes, replicas, slots or tasks of the cluster, with its progress.
type OperationView struct {
	ID             string   `json:"id"`
	Kind           string   `json:"kind"`
	Namespace      string   `json:"namespace,omitempty"`   // that is deleted, or of a bulk operation
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

	*BulkView // nil: it is no bulk operation
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
