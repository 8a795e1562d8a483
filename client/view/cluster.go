package view

import (
	"slices"
	"time"
)

// Cluster is one node's view of the cluster's nodes and shards.
type Cluster struct {
	ID     string  `json:"cluster_id"`
	Map    string  `json:"map"` // version of the node's slots, leaders and addresses
	Nodes  []Node  `json:"nodes"`
	Shards []Shard `json:"shards"`

	// CommandVersion is the newest version of commands that the cluster may write: the lowest of all nodes. It never
	// falls.
	CommandVersion uint32 `json:"command_version"`

	Control ControlGroup `json:"control"`

	Backups *Backups `json:"backups,omitempty"` // made on a schedule; nil: no node has begun one

	Replication ReplicaCounts `json:"replication"`
	Waits       string        `json:"waits"`      // why it has not the shape that it should have; empty: it has
	Operations  []Operation   `json:"operations"` // those under way, and the last that have ended
	SlotMoves   []SlotMove    `json:"slot_moves"` // under way

	AutoSplit *AutoSplit `json:"auto_split,omitempty"` // nil: no shard splits by itself, or it is not known
}

// Node returns the node with this ID, or nil if there is none.
func (c *Cluster) Node(id string) *Node {
	at := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.ID == id })
	if at < 0 {
		return nil
	}
	return &c.Nodes[at]
}

// AutoSplit describes the shards that split by themselves.
type AutoSplit struct {
	Bytes    uint64   `json:"bytes"`    // size of a shard from which on it splits
	Shards   int      `json:"shards"`   // number of shards from which on none does
	Outgrown []uint32 `json:"outgrown"` // shards above the size
	Waits    string   `json:"waits"`    // why none of these splits now; empty: one does, or there is none
}

// ControlGroup is the Raft group of all nodes that knows which node holds what. Its leader plans all moves.
type ControlGroup struct {
	Leader string   `json:"leader"` // a node's ID; empty: none is known
	Term   uint64   `json:"term"`
	Voters []string `json:"voters"` // IDs of nodes, sorted
}

// ReplicaCounts is the number of replicas of the shards.
type ReplicaCounts struct {
	Wanted int `json:"wanted"`
	Fewest int `json:"fewest"` // of the shard that has the fewest
}

// Node is one member of the cluster.
type Node struct {
	ID            string  `json:"id"`
	Name          string  `json:"name"`
	HTTPAddr      string  `json:"http_addr"`
	HTTPURL       string  `json:"http_url"` // the same with its scheme; empty: the node's build announces none
	Zone          string  `json:"zone"`     // nodes of one zone may fail together; empty: a zone of its own
	Weight        int     `json:"weight"`   // its part of replicas and leaderships; 0: it runs a build without weights
	Alive         bool    `json:"alive"`
	ClockOffsetMs float64 `json:"clock_offset_ms"` // its clock minus the answering node's; 0 if not known
	DiskLow       bool    `json:"disk_low"`        // its disk is nearly full: it leads only if no other node can
	MemoryFull    bool    `json:"memory_full"`     // shards with a replica on it take no more tasks

	CommandVersion uint32 `json:"command_version"` // newest one that its build reads, or the one that it holds

	PeerAddr  string   `json:"peer_addr"`
	AwaySince *Instant `json:"away_since"` // nil: it answers the control group's leader, or none is known
	Order     string   `json:"order"`      // work, drain, rest, remove or replace
	Replicas  int      `json:"replicas"`
	Leads     int      `json:"leads"`      // shards that it leads
	Build     string   `json:"build"`      // version of its binary; empty if it does not answer
	DiskFree  uint64   `json:"disk_free"`  // bytes; 0 if not known
	DiskTotal uint64   `json:"disk_total"` // bytes; 0 if not known
}

// Shard is one Raft group with the tasks whose ids hash to it.
type Shard struct {
	ID       uint32    `json:"id"`
	Leader   string    `json:"leader"` // a node's ID; empty: none is known
	Term     uint64    `json:"term"`
	Replicas []Replica `json:"replicas"`
	Tasks    int64     `json:"tasks"` // finished ones that are kept included
	Slots    SlotList  `json:"slots"`

	Target []string `json:"target"` // IDs of the nodes that should hold its replicas; empty: they do
	Waits  string   `json:"waits"`  // why its move does not go on; empty: it does, or there is none
	// Step is the step of its move that is under way: place, join, promote, transfer, remove, drop or settle; empty: none.
	Step  string `json:"step"`
	Bytes uint64 `json:"bytes"` // memory of its tasks, about the size of a copy
}

// Replica returns the replica on a node, or nil if there is none.
func (s *Shard) Replica(node string) *Replica {
	at := slices.IndexFunc(s.Replicas, func(r Replica) bool { return r.Node == node })
	if at < 0 {
		return nil
	}
	return &s.Replicas[at]
}

// Owns reports whether the shard owns a slot.
func (s *Shard) Owns(slot uint32) bool {
	return slices.ContainsFunc(s.Slots, func(r Slots) bool { return r.First <= slot && slot < r.End })
}

// Replica is one copy of a shard.
type Replica struct {
	Node string `json:"node"` // a node's ID
	// State is leader, follower, candidate or shutdown; absent: the node does not have the copy; unknown: the node does
	// not answer.
	State   string `json:"state"`
	Applied uint64 `json:"applied"` // log index

	// Commands is the number of commands that the copy had carried out at that index, and Hash is the hash of its state.
	// Both are the same for all copies at one index.
	Commands uint64 `json:"commands"`
	Hash     string `json:"hash"`
	// Diverged means that the copy's state differs from another copy's, and is not known to be the majority's.
	Diverged bool `json:"diverged"`

	Voter    bool     `json:"voter"`
	Received *float64 `json:"received,omitempty"` // part of the leader's snapshot that has arrived; nil: none arrives
}

// SlotMove is a move of slots from one shard to another, under way.
type SlotMove struct {
	Number uint64 `json:"number"`
	From   uint32 `json:"from"`
	To     uint32 `json:"to"`
	Slots  int    `json:"slots"` // number of slots
	State  string `json:"state"` // copying, opening, giving_up
	// Step is expect, copy, seal, ready, decide, open, drop or end; of a move that is given up give_up, unseal, abandon or
	// end. Empty: the control group's leader is not known.
	Step        string `json:"step"`
	Tries       int    `json:"tries"` // moves of the same slots that were given up before
	TasksCopied uint64 `json:"tasks_copied"`
	BytesCopied uint64 `json:"bytes_copied"`
	Sealed      bool   `json:"sealed"` // calls on the slots wait for the target
	Waits       string `json:"waits"`  // why it failed last, unless it has gone on since; empty: it goes on
}

// Backups describes the backups that the nodes make on a schedule.
type Backups struct {
	Running    *BackupTry `json:"running,omitempty"`     // nil: none
	LastKept   *BackupTry `json:"last_kept,omitempty"`   // nil: none was kept
	LastFailed *BackupTry `json:"last_failed,omitempty"` // nil: none failed
}

// BackupTry is one try to make a backup.
type BackupTry struct {
	Node    string  `json:"node"` // ID of the node that makes it
	BegunAt Instant `json:"begun_at"`
	SeenAt  Instant `json:"seen_at"`         // its end, or the last confirmation that it runs
	Place   string  `json:"place,omitempty"` // address of the backup, if it was kept
	Bytes   int64   `json:"bytes,omitempty"`
	Error   string  `json:"error,omitempty"` // reason of the failure; of a kept one, why older ones were not removed
}

// Map is one node's view of slots, leaders and addresses: all that a client needs to call the leaders.
type Map struct {
	ClusterID string     `json:"cluster_id"`
	Version   string     `json:"map"`       // equal on all nodes whose views are equal
	Namespace string     `json:"namespace"` // of the caller's calls that name none
	Nodes     []MapNode  `json:"nodes"`     // that lead a shard and are up
	Shards    []MapShard `json:"shards"`    // by ID
}

// MapNode is a node that leads a shard and is up.
type MapNode struct {
	ID  string `json:"id"`
	URL string `json:"http_url"`
}

// MapShard is a shard with its leader and slots.
type MapShard struct {
	ID     uint32   `json:"id"`
	Leader string   `json:"leader"` // a node's ID; empty: none is known
	Slots  SlotList `json:"slots"`
}

// JoinToken describes a one-time token by which a new node joins the cluster.
type JoinToken struct {
	ID       string    `json:"id"` // a name for the token, which is not the token
	Created  time.Time `json:"created_at"`
	Expires  time.Time `json:"expires_at"`
	UsedBy   string    `json:"used_by,omitempty"`      // ID of the node that it let in; empty: none yet
	UsedName string    `json:"used_by_name,omitempty"` // that node's name
	Used     time.Time `json:"used_at,omitzero"`
}

// NewJoinToken is a token that was just made. The service keeps only a hash of it.
type NewJoinToken struct {
	JoinToken
	Token    string `json:"token"`
	Required bool   `json:"required"` // a new node needs a token, because the nodes show certificates
}

// Severity is the urgency of a finding.
type Severity string

// The severities, the gravest first.
const (
	Critical Severity = "critical" // calls are refused or tasks are late
	Warning  Severity = "warning"  // one more failure, or some more time, makes it critical
	Note     Severity = "note"     // nothing is wrong
)

// Finding is one trouble of the cluster.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"` // stable name of the kind of finding; docs/reference/doctor.md has a section for each
	Summary  string   `json:"summary"`
	Do       []string `json:"do"` // commands for a shell that help, in their order, each to be run as it is
}
