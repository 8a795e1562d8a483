package doctor

import "time"

// Snapshot is a node's knowledge of its cluster at one instant.
type Snapshot struct {
	Self      string // id of the node
	InCluster bool
	Waits     string // reason why the node takes no part in the cluster; empty: it does
	DataDir   string // of the node
	Nodes     []Node
	Groups    []Group // the control group and the shards
	Moves     []Move
	SlotMoves []SlotMove
	Queues    []Queue
	Backup    Backup
	Secrets   Secrets
	APIKeys   []APIKey

	MaxClockOffset time.Duration
	ReplaceAfter   time.Duration // a node that is missed for so long is replaced; 0: the control group has no leader
	CommandVersion uint32        // in use by the shards
}

// Node is one node of the cluster. Fields of a silent node that only its own answer has are zero.
type Node struct {
	ID, Name string
	URL      string        // for callers
	Peer     string        // host:port for other nodes; empty: not known
	DataDir  string        // on its machine; empty: not known
	Zone     string        // empty: the node is a zone of its own
	Answers  bool          // it answers the node that made the snapshot
	Refused  string        // reason for which it refuses all calls of other nodes
	Silent   time.Duration // since its last answer, or, with Unheard, since the start of the asking node
	Unheard  bool          // it has not answered since the start of the asking node
	Missed   time.Duration // for which the leader of the control group has missed it; 0: not known
	Leaves   bool          // an operator has ordered that other nodes take its replicas

	Waits          string   // reason why it takes no part
	NotReady       string   // reason why it would not serve all calls
	Hears          []string // nodes that answer it
	Build          string   // version of its binary
	CommandVersion uint32   // newest version that it reads

	DiskFree, DiskTotal, DiskReserve uint64 // bytes; DiskTotal 0: not known
	DiskLow                          bool
	MemoryUsed, MemoryLimit          int64  // bytes; MemoryLimit 0: none
	MemoryFull                       string // the limit that is reached; empty: there is memory

	Attempts  int64 // under way
	Strangers int64 // attempts from which on receivers that are not known to be well get no more; 0: not known

	Clock      time.Duration // lead over the clock of the node that made the snapshot
	ClockKnown bool
	KeysEnd    time.Duration // until its certificate or its CA's ends; 0: it has none
	// HTTPKeysEnd is the time until the end of the certificate that callers see; 0: it has none.
	HTTPKeysEnd time.Duration

	IssuerFault string        // reason why the keys of the issuer of tokens are not fresh; empty: they are, or it has none
	IssuerKeys  time.Duration // with IssuerFault, since these keys were read; 0: they never were

	AuditFault  string   // reason why its audit log is not written; empty: it is
	ClusterKeys []string // ids of its cluster keys, the sealing one first
}

// Secrets tells how the secrets of the queues' policies, and the keys of tokens, are stored.
type Secrets struct {
	Key    string         // id of the cluster key that seals; empty: none does
	Sealed map[string]int // queues with sealed secrets, by the id of their key
	Plain  int            // queues with secrets in the clear
	Tokens []string       // for each key of tokens, the id of the cluster key that seals it; empty: none does
}

// APIKey is a key of callers that has not expired.
type APIKey struct {
	ID     string
	Unused time.Duration // since its last use, or since it was made; uses are known to the hour
}

// Group is one Raft group.
type Group struct {
	Shard     uint32 // 0: the control group
	Leader    string // node id; empty: none is known
	Preferred string // node id; empty: any
	Replicas  []Replica
}

// Replica is a group's replica on one node.
type Replica struct {
	Node     string
	Voter    bool
	Present  bool   // the node answers and has opened the replica
	Applied  uint64 // Raft index; 0: not known
	Diverged bool
}

// Move is a change of a shard's replicas that is under way.
type Move struct {
	Shard    uint32
	From, To []string // node ids
	Blocked  string   // reason why the next step is not taken; empty: it goes on
	For      time.Duration
}

// SlotMove is a move of slots from one shard to another that is under way.
type SlotMove struct {
	From, To  uint32
	Slots     int           // number of slots
	GivenUp   int           // times that it was given up and begun anew
	Still     time.Duration // since it last went on
	CallsWait bool          // calls on the slots wait for its end
	Reason    string        // of its last failure; empty: not known
}

// Broken is a receiver whose circuit breaker is open.
type Broken struct {
	Name      string // the destination with the path
	For       time.Duration
	LastError string
	Waiting   uint64 // tasks
}

// Queue is the state of one queue over all shards.
type Queue struct {
	Namespace string // empty: the default one
	Name      string
	Paused    bool
	Limited   bool   // its own limits hold tasks back
	Limit     string // its own limits for people, as in "4 in flight"
	Grouped   bool   // its groups have limits
	Pulled    bool   // the oldest ready task waits for a consumer

	Ready, Leased, Retrying, Dead uint64
	Delivered                     uint64 // within KeepDone
	KeepDone                      time.Duration
	Overdue                       time.Duration // of the oldest ready task
	Broken                        []Broken
	Failure                       string // last error of a waiting task; empty: none is known
	Death                         string // last error of a dead letter; empty: none is known
}

// Backup is the outcome of the backups that were made through the cluster's nodes, as far as they remember.
type Backup struct {
	Failed string        // reason why the newest one failed; empty: it did not, or there was none
	Since  time.Duration // since the newest whole one; 0: none is known
}
