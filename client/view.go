package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/belfryhq/belfry/client/view"
)

// The parts of a cluster, as its nodes describe them.
type (
	Cluster       = view.Cluster       // one node's view of the nodes and shards
	ControlGroup  = view.ControlGroup  // the Raft group that knows which node holds what
	Node          = view.Node          // a member of the cluster
	Shard         = view.Shard         // a Raft group with the tasks whose ids hash to it
	Slots         = view.Slots         // a range of slots
	Replica       = view.Replica       // a copy of a shard
	ReplicaCounts = view.ReplicaCounts // the number of replicas of the shards
	SlotMove      = view.SlotMove      // a move of slots from one shard to another
	AutoSplit     = view.AutoSplit     // the shards that split by themselves
	Backups       = view.Backups       // the backups that the nodes make on a schedule
	BackupTry     = view.BackupTry     // one try to make a backup
	JoinToken     = view.JoinToken     // a one-time token by which a new node joins
	NewJoinToken  = view.NewJoinToken  // such a token with its text
	Finding       = view.Finding       // one trouble of the cluster
	Severity      = view.Severity      // the urgency of a finding
	Instant       = view.Instant       // an instant of an answer
)

// The severities, the gravest first.
const (
	Critical = view.Critical // calls are refused or tasks are late
	Warning  = view.Warning  // one more failure, or some more time, makes it critical
	Note     = view.Note     // nothing is wrong
)

// Cluster returns a node's view of the cluster.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	cluster := new(Cluster)
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/cluster"}, readJSON(cluster)); err != nil {
		return nil, err
	}
	return cluster, nil
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
