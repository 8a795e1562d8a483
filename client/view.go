package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/belfryhq/belfry/client/view"
)

type (
	// Cluster is one node's view of the cluster's nodes and shards.
	Cluster = view.Cluster
	// ControlGroup is the Raft group of all nodes that knows which node holds what.
	ControlGroup = view.ControlGroup
	// Node is one member of the cluster.
	Node = view.Node
	// Shard is one Raft group with the tasks whose ids hash to it.
	Shard = view.Shard
	// Slots is a range of slots.
	Slots = view.Slots
	// Replica is one copy of a shard.
	Replica = view.Replica
	// ReplicaCounts is the number of replicas of the shards.
	ReplicaCounts = view.ReplicaCounts
	// SlotMove is a move of slots from one shard to another, under way.
	SlotMove = view.SlotMove
	// AutoSplit describes the shards that split by themselves.
	AutoSplit = view.AutoSplit
	// Backups describes the backups that the nodes make on a schedule.
	Backups = view.Backups
	// BackupTry is one try to make a backup.
	BackupTry = view.BackupTry
	// JoinToken describes a one-time token by which a new node joins the cluster.
	JoinToken = view.JoinToken
	// NewJoinToken is a token that was just made.
	NewJoinToken = view.NewJoinToken
	// Finding is one trouble of the cluster.
	Finding = view.Finding
	// Severity is the urgency of a finding.
	Severity = view.Severity
	// Instant is an instant of an answer: a time.Time whose JSON has milliseconds.
	Instant = view.Instant
)

// The severities, the gravest first.
const (
	Critical = view.Critical // calls are refused or tasks are late
	Warning  = view.Warning  // one more failure, or some more time, makes it critical
	Note     = view.Note     // nothing is wrong
)

// Cluster returns a node's view of the cluster.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return fetch[Cluster](ctx, c.conn, call{method: http.MethodGet, path: "/v1/cluster"})
}

// NewJoinToken makes a one-time token by which one new node may join the cluster within this time, a minute to thirty
// days; 0: one hour.
func (c *Client) NewJoinToken(ctx context.Context, validFor time.Duration) (*NewJoinToken, error) {
	path := "/v1/nodes/tokens"
	if validFor > 0 {
		path += "?valid_for=" + url.QueryEscape(validFor.String())
	}
	return fetch[NewJoinToken](ctx, c.conn, call{method: http.MethodPost, path: path})
}

// JoinTokens returns the one-time tokens of new nodes, by ID, used and expired ones included.
func (c *Client) JoinTokens(ctx context.Context) ([]JoinToken, error) {
	var list struct{ Tokens []JoinToken }
	if err := c.conn.do(ctx, call{method: http.MethodGet, path: "/v1/nodes/tokens"}, readJSON(&list)); err != nil {
		return nil, err
	}
	return list.Tokens, nil
}

// RemoveJoinToken removes a one-time token. It returns ErrNotFound if there is none with this ID.
func (c *Client) RemoveJoinToken(ctx context.Context, id string) error {
	path := "/v1/nodes/tokens/" + url.PathEscape(id)
	return c.conn.do(ctx, call{method: http.MethodDelete, path: path}, func(reply) error { return nil })
}

// Doctor returns the troubles of the cluster as one node knows them, the gravest first. A node also answers without a
// quorum.
func (c *Client) Doctor(ctx context.Context) ([]Finding, error) {
	var answer struct {
		Findings []Finding `json:"findings"`
	}
	if err := c.conn.do(ctx, call{method: http.MethodGet, path: "/v1/doctor"}, readJSON(&answer)); err != nil {
		return nil, err
	}
	return answer.Findings, nil
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
	o := gather(opts)
	call := call{method: http.MethodPost, path: "/v1/dev/advance", body: body, contentType: jsonType,
		header: c.conn.header(&o), wait: advanceWait}
	return fetch[Advanced](ctx, c.conn, call)
}
