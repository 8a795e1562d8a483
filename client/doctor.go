package client

import (
	"context"
	"net/http"
)

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
