package httpapi

import (
	"context"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Backend carries out calls, wherever in the cluster their tasks live. Its methods are called concurrently. Errors
// are those of package task, or a context's.
type Backend interface {
	// Do carries out commands and answers each, in order. Commands about one id are applied in the order given; once
	// one of them is refused with task.ErrOverloaded, so are the later ones about that id. Do writes into the commands
	// what only the shard's leader decides (until when a tombstone is kept) and leaves the rest as it is. It may still
	// be sending them after it returned, so from then on they are only read; just those that it refused with
	// task.ErrOverloaded may be handed to it again.
	Do(ctx context.Context, commands []*fsmpb.Command) []task.Reply

	// Get reads a task, tombstones included: nil without an error if there is none. The read is linearizable, unless
	// stale asks for what the nearest replica holds.
	Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error)

	// List reads one page of tasks over all slots. The page bounds its bytes as well as its tasks.
	List(ctx context.Context, query *fsmpb.ListQuery) (*fsmpb.ListPage, error)

	// Lease leases due tasks of a queue's pull lane to a consumer, from all shards: at most the request's Max, within a
	// bound on their total bytes (a single task always fits). Lease waits for the first task. When the context ends, it
	// returns the tasks granted so far, or none, without an error. With the request's Look it returns no tasks as soon as
	// every shard's leader has none. The caller settles or releases each task, or lets its lease end.
	Lease(ctx context.Context, request task.LeaseRequest) ([]*fsmpb.Task, error)

	// PutQueue replaces a queue's policy. It returns once every leader that can be reached applies it, or a second later.
	PutQueue(ctx context.Context, policy *fsmpb.QueuePolicy) (created bool, err error)

	// UpdateQueue makes what change returns a queue's policy, and returns it; see PutQueue. Change gets the policy that
	// there is, nil for none, and must not write to it. It may be called more than once, so that no other change is lost;
	// an error of its own ends the call.
	UpdateQueue(ctx context.Context, namespace, queue string,
		change func(current *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error)) (*fsmpb.QueuePolicy, error)

	// DeleteQueue takes a queue's policy away. Its tasks stay, under the policy of a queue without one.
	DeleteQueue(ctx context.Context, namespace, queue string) (existed bool, err error)

	// Queue reads a queue's policy, nil if it has none, and its counts, summed over the shards.
	Queue(ctx context.Context, namespace, queue string) (*fsmpb.QueuePolicy, *fsmpb.QueueCounts, error)

	// Queues lists the queues that have a policy or a task, tombstones included, sorted by name.
	Queues(ctx context.Context, namespace string) ([]task.Queue, error)

	// Cluster says who is there and which shard lives where, as far as this node knows.
	Cluster(ctx context.Context) (ClusterView, error)

	// Self is the cluster that this node is in, empty if none yet, and the node's id.
	Self() (clusterID, nodeID string)

	// MapVersion names what this node believes of slots, leaders and addresses: another name when it believes another
	// thing. It is asked for with each batch.
	MapVersion() string

	// Ready is nil once this node knows the map and its replicas have caught up once, and says else what is missing.
	Ready() error
}

// ClusterView is the answer of GET /v1/cluster.
type ClusterView struct {
	ClusterID string      `json:"cluster_id"`
	Map       string      `json:"map"` // its version, as the answering node's batches tell it in their head
	Nodes     []NodeView  `json:"nodes"`
	Shards    []ShardView `json:"shards"`
}

// NodeView is one node as the answering node knows it.
type NodeView struct {
	ID            string  `json:"id"`
	Name          string  `json:"name"`
	HTTPAddr      string  `json:"http_addr"`
	Alive         bool    `json:"alive"`
	ClockOffsetMs float64 `json:"clock_offset_ms"` // its clock minus the answering node's
	DiskLow       bool    `json:"disk_low"`        // it leads only what nobody else can
	MemoryFull    bool    `json:"memory_full"`     // shards with a replica on it take no more tasks
}

// ShardView is one shard as the answering node knows it.
type ShardView struct {
	ID       uint32        `json:"id"`
	Leader   string        `json:"leader"` // node id; empty: none known
	Term     uint64        `json:"term"`
	Replicas []ReplicaView `json:"replicas"`
	Tasks    uint64        `json:"tasks"`
	Slots    []SlotRange   `json:"slots"` // that are this shard's
}

// SlotRange is the slots from First on, up to the one before End.
type SlotRange struct {
	First uint32 `json:"first"`
	End   uint32 `json:"end"`
}

// ReplicaView is one replica of a shard.
type ReplicaView struct {
	Node    string `json:"node"`
	State   string `json:"state"`   // leader, follower, learner, or unknown
	Applied uint64 `json:"applied"` // log index

	// Commands and Hash say how many commands the replica had carried out at that index, and what its state hashed to.
	// Replicas with the same Applied have the same Commands and Hash, or have gone apart.
	Commands uint64 `json:"commands"`
	Hash     string `json:"hash"`

	// Diverged: the replica's state differs from another one's at the same index, and is not known to be that of a
	// majority. All nodes compare all the time.
	Diverged bool `json:"diverged"`
}

// normalise makes empty lists of absent ones, so that they are [] in JSON and not null.
func (v *ClusterView) normalise() {
	if v.Nodes == nil {
		v.Nodes = []NodeView{}
	}
	if v.Shards == nil {
		v.Shards = []ShardView{}
	}
	for i := range v.Shards {
		if v.Shards[i].Replicas == nil {
			v.Shards[i].Replicas = []ReplicaView{}
		}
		if v.Shards[i].Slots == nil {
			v.Shards[i].Slots = []SlotRange{}
		}
	}
}
