package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/httpapi"
)

// openSecrets reads the cluster keys, and reads them again as long as the node runs.
func (n *Node) openSecrets(context.Context) error {
	var err error
	if n.secrets, err = seal.OpenKeys(n.cfg.ClusterKeyFile, n.log); err != nil {
		return &SettingError{"cluster-key-file", err}
	}
	if n.secrets != nil {
		again := n.again.Reader()
		n.background(func(ctx context.Context) { n.secrets.Run(ctx, again) })
	}
	return nil
}

// startAudit opens the audit log. The records have the node's id, so the log follows the data.
func (n *Node) startAudit(context.Context) error {
	cfg := audit.Config{Path: n.cfg.Audit, Node: n.ID(), Now: n.machineClock(), Logger: n.log, Registerer: n.registry}
	switch n.cfg.Audit {
	case "-":
		cfg.Also = os.Stdout
		fallthrough
	case "":
		cfg.Path = filepath.Join(n.cfg.DataDir, "audit", "audit.jsonl")
	}
	log, err := audit.Open(cfg)
	if err != nil {
		return &SettingError{"audit", err}
	}
	n.audit.Store(log)
	n.onStop(func() error {
		n.audit.Store(nil)
		return log.Close()
	})
	return nil
}

// records keeps the records of the calls beside the API: at the port of the profiles, and while the node waits.
type records struct{ n *Node }

// Recorder returns the keeper of the record of a call that was let in. The node's log takes the record before the audit
// log is open and after it is closed.
func (b records) Recorder() httpapi.Recorder {
	if log := b.n.audit.Load(); log != nil {
		return log
	}
	return nodeLog{b.n.log}
}

// nodeLog keeps records of calls in the node's log.
type nodeLog struct{ *slog.Logger }

func (nodeLog) Reserve(context.Context) error { return nil }
func (nodeLog) Release()                      {}

// Change writes a line with the parts of a record.
func (l nodeLog) Change(r audit.Record) {
	l.Info("a call was let in without the audit log", "caller", r.Caller.Kind, "caller_id", audit.Clean(r.Caller.ID),
		"from", r.From, "method", r.Method, "route", audit.Clean(r.Route), "name", audit.Clean(r.Object["name"]),
		"status", r.Status)
}

// Refuse records a call that was refused because of its caller. The node's log takes the record before the audit log is
// open.
func (b records) Refuse(r audit.Record) {
	if log := b.n.audit.Load(); log != nil {
		log.Refuse(r)
		return
	}
	b.n.log.Debug("a call was refused before the audit log was open", "from", r.From, "method", r.Method,
		"route", audit.Clean(r.Route), "status", r.Status)
}

// api is the part of the node that callers reach, for the cluster.
type api struct{ n *Node }

func (a api) KeysEnd() time.Time {
	if a.n.certificates == nil {
		return time.Time{}
	}
	return a.n.certificates.Ends()
}

func (a api) IssuerFault() (keysRead time.Time, fault error) { return a.n.callers.IssuerFault() }

func (a api) AuditFault() error {
	if log := a.n.audit.Load(); log != nil {
		return log.Failing()
	}
	return nil
}

var errNoAudit = errors.New("the node opens its audit log")

func (a api) Audit(ctx context.Context, r *clusterpb.AuditRequest) (*clusterpb.AuditReply, error) {
	log := a.n.audit.Load()
	if log == nil {
		return nil, errNoAudit
	}
	q := audit.Query{After: r.After, Limit: min(max(int(r.Limit), 1), audit.MaxLimit)}
	if r.SinceMs > 0 {
		q.Since = time.UnixMilli(r.SinceMs)
	}
	page, err := log.Read(ctx, q)
	return &clusterpb.AuditReply{Lines: page.Lines, Next: page.Next, More: page.More, Lost: page.Lost}, err
}

// auditor keeps the audit log of this node, and reads those of all nodes, for the API.
type auditor struct {
	*audit.Log
	cluster *cluster.Node
}

// Read asks every node, and merges the answers.
func (a auditor) Read(ctx context.Context, q httpapi.AuditQuery) (*httpapi.AuditPage, error) {
	replies, failed := a.cluster.Audit(ctx, func(node string) *clusterpb.AuditRequest {
		r := &clusterpb.AuditRequest{After: q.After[node], Limit: uint32(q.Limit)}
		if !q.Since.IsZero() {
			r.SinceMs = q.Since.UnixMilli()
		}
		return r
	})
	pages := map[string]audit.Page{}
	for node, r := range replies {
		pages[node] = audit.Page{Lines: r.Lines, Next: r.Next, More: r.More, Lost: r.Lost}
	}
	page := &httpapi.AuditPage{Merged: audit.Merge(q.After, pages, q.Limit)}
	for node, err := range failed {
		page.Missing = append(page.Missing, httpapi.AuditMissing{Node: node, Error: err.Error()})
	}
	slices.SortFunc(page.Missing, func(a, b httpapi.AuditMissing) int { return strings.Compare(a.Node, b.Node) })
	return page, nil
}
