package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Bulk carries out bulk operations: one call on every task of a namespace that passes a filter.
type Bulk interface {
	// BeginBulk begins a bulk operation and returns it, or the one that has begun before with the request's id; same is
	// false if that one's Call is another.
	BeginBulk(ctx context.Context, r BulkRequest) (op *view.Operation, same bool, err error)
	// CountBulk counts the tasks that a bulk operation would match now, and begins nothing. It counts until ctx ends; all
	// is false if tasks may be left then.
	CountBulk(ctx context.Context, r BulkRequest) (matched uint64, all bool, err error)
	// StopBulk stops a bulk operation that is under way, and returns it.
	StopBulk(ctx context.Context, id string) (*view.Operation, error)
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

// bulkKind is the kind of all bulk operations. Their call is the member op.
const bulkKind = "bulk"

// beginBulk begins a bulk operation, or counts the tasks that it would match.
func (s *operationService) beginBulk(c echo.Context) error {
	cl := callOf(c)
	if err := cl.checkWhole(); err != nil {
		return err
	}
	body, err := bind(c, s.bounds.BodyBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	r, err := s.parser(cl).bulk(body.data)
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
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	op, same, err := s.backend.BeginBulk(ctx, *r)
	switch {
	case err != nil:
		return err
	case !same:
		return &problem{kind: keyReused, field: keyHeader, detail: "was used before with another operation"}
	}
	return s.answerBulk(c, op)
}

// answerBulk answers with a bulk operation that is under way.
func (s *operationService) answerBulk(c echo.Context, op *view.Operation) error {
	op.Waits = orEmpty(op.Waits)
	callOf(c).names("operation", op.ID)
	c.Response().Header().Set("Location", "/v1/operations/"+op.ID)
	return writeValue(c, http.StatusAccepted, op)
}

// countBulk answers with the number of tasks that a bulk operation would match now.
func (s *operationService) countBulk(c echo.Context, r BulkRequest) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	matched, all, err := s.backend.CountBulk(ctx, r)
	if err != nil {
		return s.readFailed(err)
	}
	return writeValue(c, http.StatusOK, struct {
		Matched  uint64 `json:"matched"`
		Complete bool   `json:"complete"`
	}{matched, all})
}

// stopBulk stops a bulk operation. Its caller may operate the whole namespace.
func (s *operationService) stopBulk(c echo.Context, op *view.Operation) error {
	if !callOf(c).caller.Allows(access.Need{Role: access.Operate, Namespace: op.Namespace}) {
		return callOf(c).roleMissing("in the namespace " + op.Namespace)
	}
	if op.State != isRunning {
		return &problem{kind: impossible, detail: fmt.Sprintf("the operation is %s", op.State)}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	stopped, err := s.backend.StopBulk(ctx, op.ID)
	if err != nil {
		return err
	}
	return s.answerBulk(c, stopped)
}
