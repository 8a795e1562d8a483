package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/contract"
)

// Bulk carries out bulk operations: one call on every task of a namespace that passes a filter.
type Bulk interface {
	// BeginBulk begins a bulk operation and returns it, or the one that has begun before with the request's id. The error
	// may also be an *ImpossibleError.
	BeginBulk(ctx context.Context, r BulkRequest) (*OperationView, error)
	// CountBulk counts the tasks that a bulk operation would match now, and begins nothing. It counts until ctx ends; all
	// is false if tasks may be left then. The error may also be an *ImpossibleError.
	CountBulk(ctx context.Context, r BulkRequest) (matched uint64, all bool, err error)
	// StopBulk stops a bulk operation that is under way, and returns it.
	StopBulk(ctx context.Context, id string) (*OperationView, error)
}

// BulkRequest is a bulk operation as its caller describes it.
type BulkRequest struct {
	ID        string // of the operation, if the call has an idempotency key; empty: a new one
	Op        string // cancel, move, patch, fire, replay or purge
	Namespace string
	Filter    *fsmpb.ListQuery // without namespace, limit and cursor
	All       bool             // the filter has no condition
	ByMs      int64            // of a move: added to the instant of each task; 0: the tasks move to ToMs
	ToMs      int64            // of a move
	Patch     *fsmpb.Patch     // of a patch
	PerSecond uint32           // most tasks a second; 0: the service's rate
	Call      uint64           // hash of the request, for repeats of its key
	DryRun    bool             // nothing begins
}

// BulkFilter is the filter of a bulk operation in an answer.
type BulkFilter struct {
	Queue     string   `json:"queue,omitempty"`
	Prefix    string   `json:"prefix,omitempty"`
	Labels    []string `json:"label,omitempty"` // name:value
	States    []string `json:"state,omitempty"`
	DueAfter  *Instant `json:"due_after,omitempty"`
	DueBefore *Instant `json:"due_before,omitempty"`
}

// BulkView is the part of an OperationView that only bulk operations have.
type BulkView struct {
	Op        string            `json:"op"`
	Filter    BulkFilter        `json:"filter"`
	All       bool              `json:"all,omitempty"`
	By        string            `json:"by,omitempty"`      // of a move
	FireAt    *Instant          `json:"fire_at,omitempty"` // of a move: to which the tasks move
	Patched   []string          `json:"patched,omitempty"` // of a patch: the members that it changes
	PerSecond uint32            `json:"per_second,omitempty"`
	Matched   uint64            `json:"matched"`  // tasks so far
	Outcomes  map[string]uint64 `json:"outcomes"` // tasks by outcome, so far

	Call uint64 `json:"-"` // hash of the request
}

// BulkKind is the kind of all bulk operations. Their call is the member op.
const BulkKind = "bulk"

// isBulk reports whether an operation is a bulk operation.
func (o *OperationView) isBulk() bool { return o.BulkView != nil }

// BulkFilterOf returns the filter of a query as answers show it.
func BulkFilterOf(q *fsmpb.ListQuery) BulkFilter {
	f := BulkFilter{Queue: q.GetQueue(), Prefix: q.GetPrefix()}
	for _, l := range q.GetLabels() {
		f.Labels = append(f.Labels, l.Name+":"+l.Value)
	}
	for _, s := range q.GetStates() {
		f.States = append(f.States, stateName(s))
	}
	f.DueAfter, f.DueBefore = instantOf(q.GetDueAfterMs()), instantOf(q.GetDueBeforeMs())
	return f
}

// BulkBy returns the duration of a move as answers show it, or "" for 0 milliseconds.
func BulkBy(ms int64) string {
	if ms == 0 {
		return ""
	}
	quoted := contract.AppendDuration(nil, time.Duration(ms)*time.Millisecond)
	return strings.Trim(string(quoted), `"`)
}

// instantOf returns an instant of an answer, or nil for 0.
func instantOf(ms int64) *Instant {
	if ms == 0 {
		return nil
	}
	at := Instant(ms)
	return &at
}

// beginBulk begins a bulk operation, or counts the tasks that it would match.
func (s *Server) beginBulk(c echo.Context) error {
	cl := callOf(c)
	if err := cl.checkWhole(); err != nil {
		return err
	}
	body, err := bind(c, s.cfg.BodyBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	r, err := (&parser{now: s.arrived(), checkURL: s.cfg.CheckURL}).bulk(body.data)
	if err != nil {
		return err
	}
	r.Namespace = cl.namespace
	if r.DryRun {
		return s.countBulk(c, *r)
	}
	if key := c.Request().Header.Get(keyHeader); key != "" {
		r.ID = operationID("bulk\x00" + cl.namespace + "\x00" + key)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	op, err := s.cfg.Backend.BeginBulk(ctx, *r)
	switch {
	case err != nil:
		return err
	case !op.isBulk() || op.Call != r.Call:
		return &problem{kind: keyReused, field: keyHeader, detail: "was used before with another operation"}
	}
	return s.answerBulk(c, op)
}

// answerBulk answers with a bulk operation that is under way.
func (s *Server) answerBulk(c echo.Context, op *OperationView) error {
	op.Waits = append([]string{}, op.Waits...)
	callOf(c).names("operation", op.ID)
	c.Response().Header().Set("Location", "/v1/operations/"+op.ID)
	return writeValue(c, http.StatusAccepted, op)
}

// countBulk answers with the number of tasks that a bulk operation would match now.
func (s *Server) countBulk(c echo.Context, r BulkRequest) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	matched, all, err := s.cfg.Backend.CountBulk(ctx, r)
	if err != nil {
		return s.readFailed(err)
	}
	return writeValue(c, http.StatusOK, struct {
		Matched  uint64 `json:"matched"`
		Complete bool   `json:"complete"`
	}{matched, all})
}

// stopBulk stops a bulk operation. Its caller may operate the whole namespace.
func (s *Server) stopBulk(c echo.Context, op *OperationView) error {
	if !callOf(c).caller.Allows(access.Need{Role: access.Operate, Namespace: op.Namespace}) {
		return callOf(c).roleMissing("in the namespace " + op.Namespace)
	}
	if op.State != isRunning {
		return &problem{kind: impossible, detail: fmt.Sprintf("the operation is %s", op.State)}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	stopped, err := s.cfg.Backend.StopBulk(ctx, op.ID)
	if err != nil {
		return err
	}
	return s.answerBulk(c, stopped)
}
