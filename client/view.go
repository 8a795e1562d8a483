package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
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
	Voters []string `json:"voters"` // IDs of nodes
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

// ReplicaCounts is the number of replicas of the shards.
type ReplicaCounts struct {
	Wanted int `json:"wanted"`
	Fewest int `json:"fewest"` // of the shard that has the fewest
}

// Backups describes the backups that the nodes make on a schedule.
type Backups struct {
	Running    *BackupTry `json:"running,omitempty"`     // nil: none
	LastKept   *BackupTry `json:"last_kept,omitempty"`   // nil: none was kept
	LastFailed *BackupTry `json:"last_failed,omitempty"` // nil: none failed
}

// BackupTry is one try to make a backup.
type BackupTry struct {
	Node    string    `json:"node"` // ID of the node that makes it
	BegunAt time.Time `json:"begun_at"`
	SeenAt  time.Time `json:"seen_at"`         // its end, or the last confirmation that it runs
	Place   string    `json:"place,omitempty"` // address of the backup, if it was kept
	Bytes   int64     `json:"bytes,omitempty"`
	Error   string    `json:"error,omitempty"` // reason of the failure; of a kept one, why older ones were not removed
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
	ClockOffsetMs float64 `json:"clock_offset_ms"`
	DiskLow       bool    `json:"disk_low"`    // its disk is nearly full: it leads only if no other node can
	MemoryFull    bool    `json:"memory_full"` // shards with a replica on it take no more tasks

	CommandVersion uint32 `json:"command_version"` // newest one that its build reads, or the one that it holds

	PeerAddr  string     `json:"peer_addr"`
	AwaySince *time.Time `json:"away_since"` // nil: it is up, or the control group has no leader
	Order     string     `json:"order"`      // work, drain, rest, remove or replace
	Replicas  int        `json:"replicas"`
	Leads     int        `json:"leads"`      // shards that it leads
	Build     string     `json:"build"`      // version of its binary; empty if it does not answer
	DiskFree  uint64     `json:"disk_free"`  // bytes; 0 if not known
	DiskTotal uint64     `json:"disk_total"` // bytes; 0 if not known
}

// Shard is one Raft group with the tasks whose ids hash to it.
type Shard struct {
	ID       uint32    `json:"id"`
	Leader   string    `json:"leader"` // a node's ID; empty: none is known
	Term     uint64    `json:"term"`
	Replicas []Replica `json:"replicas"`
	Tasks    int64     `json:"tasks"`
	Slots    []Slots   `json:"slots"`

	Target []string `json:"target"` // IDs of the nodes that should hold its replicas; empty: they do
	Waits  string   `json:"waits"`  // why its move does not go on; empty: it does, or there is none
	// Step is the step of its move that is under way: place, join, promote, transfer, remove, drop or settle; empty: none.
	Step  string `json:"step"`
	Bytes uint64 `json:"bytes"` // memory of its tasks, about the size of a copy
}

// Slots is the range of slots from First to End-1. A task's slot is the slot of its id.
type Slots struct {
	First uint32 `json:"first"`
	End   uint32 `json:"end"`
}

// Replica is one copy of a shard.
type Replica struct {
	Node    string `json:"node"` // a node's ID
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

// Node returns the node with this ID, or nil if there is none.
func (c *Cluster) Node(id string) *Node {
	for i := range c.Nodes {
		if c.Nodes[i].ID == id {
			return &c.Nodes[i]
		}
	}
	return nil
}

// Cluster returns a node's view of the cluster.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	view := new(Cluster)
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/cluster"}, readJSON(view)); err != nil {
		return nil, err
	}
	return view, nil
}

// JoinToken describes a one-time token by which a new node joins the cluster.
type JoinToken struct {
	ID       string    `json:"id"` // a name for the token, which is not the token
	Created  time.Time `json:"created_at"`
	Expires  time.Time `json:"expires_at"`
	UsedBy   string    `json:"used_by"`      // ID of the node that it let in; empty: none yet
	UsedName string    `json:"used_by_name"` // that node's name
	Used     time.Time `json:"used_at"`
}

// NewJoinToken is a token that was just made. The service keeps only a hash of it.
type NewJoinToken struct {
	JoinToken
	Token    string `json:"token"`
	Required bool   `json:"required"` // a new node needs a token, because the nodes show certificates
}

// NewJoinToken makes a one-time token by which one new node may join the cluster within this time, a minute to thirty
// days; 0: one hour.
func (c *Client) NewJoinToken(ctx context.Context, validFor time.Duration) (*NewJoinToken, error) {
	path := "/v1/nodes/tokens"
	if validFor > 0 {
		path += "?valid_for=" + url.QueryEscape(validFor.String())
	}
	token := new(NewJoinToken)
	if err := c.do(ctx, call{method: http.MethodPost, path: path}, readJSON(token)); err != nil {
		return nil, err
	}
	return token, nil
}

// JoinTokens returns the one-time tokens of new nodes, by ID, used and expired ones included.
func (c *Client) JoinTokens(ctx context.Context) ([]JoinToken, error) {
	var list struct{ Tokens []JoinToken }
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/nodes/tokens"}, readJSON(&list)); err != nil {
		return nil, err
	}
	return list.Tokens, nil
}

// RemoveJoinToken removes a one-time token. It returns ErrNotFound if there is none with this ID.
func (c *Client) RemoveJoinToken(ctx context.Context, id string) error {
	path := "/v1/nodes/tokens/" + url.PathEscape(id)
	return c.do(ctx, call{method: http.MethodDelete, path: path}, func(reply) error { return nil })
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
	Code     string   `json:"code"` // stable name of the kind of finding
	Summary  string   `json:"summary"`
	Do       []string `json:"do"` // commands that help, in their order
}

// Doctor returns the troubles of the cluster as one node knows them, the gravest first. A node also answers without a
// quorum.
func (c *Client) Doctor(ctx context.Context) ([]Finding, error) {
	var answer struct {
		Findings []Finding `json:"findings"`
	}
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/doctor"}, readJSON(&answer)); err != nil {
		return nil, err
	}
	return answer.Findings, nil
}

// Advanced is the clock of a node in dev mode after an advance.
type Advanced struct {
	Now   time.Time `json:"now"`
	Begun int       `json:"begun"` // attempts and leases that began meanwhile
}

// advanceWait is the time that an advance may take beyond that of other calls.
const advanceWait = 5 * time.Minute

// Advance sets the clock of a node in dev mode ahead: see `belfry dev`. It returns when the attempts that came due have
// begun. Other nodes refuse it with the status 404.
func (c *Client) Advance(ctx context.Context, by time.Duration, opts ...Option) (*Advanced, error) {
	body, err := json.Marshal(map[string]string{"by": by.String()})
	if err != nil {
		return nil, err
	}
	o, advanced := gather(opts), new(Advanced)
	call := call{method: http.MethodPost, path: "/v1/dev/advance", body: body, contentType: jsonType,
		header: c.header(&o), wait: advanceWait}
	if err := c.do(ctx, call, readJSON(advanced)); err != nil {
		return nil, err
	}
	return advanced, nil
}
