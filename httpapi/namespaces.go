package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/quota"
)

// Namespaces are the namespaces of the cluster. Errors are package task's.
type Namespaces interface {
	// NamespaceActive reports whether a namespace exists and is not being deleted, as far as this node knows. It is fast:
	// each call in a namespace calls it, but for the default one.
	NamespaceActive(name string) bool

	// Namespaces returns the namespaces as this node knows them, the default one included, sorted by name.
	Namespaces() []view.Namespace

	// Weight returns the weight of a namespace: its part of the node's processors beside the work of others.
	Weight(name string) int

	// NamespaceUse counts the tasks of a namespace in the whole cluster.
	NamespaceUse(ctx context.Context, name string) (task.NamespaceUse, error)

	// PutNamespace makes a namespace, or replaces its quotas.
	PutNamespace(ctx context.Context, name string, limits quota.Limits) (made view.Namespace, created bool, err error)

	// DeleteNamespace begins the deletion of a namespace and returns its operation, or the one under way. It returns nil
	// without an error if there is no such namespace.
	DeleteNamespace(ctx context.Context, name string) (*view.Operation, error)
}

// namespaceService answers the calls about namespaces.
type namespaceService struct {
	*core
	backend Namespaces
}

// list answers the namespaces that the caller's grants reach.
func (s *namespaceService) list(c echo.Context) error {
	list := []view.Namespace{}
	for _, n := range s.backend.Namespaces() {
		if callOf(c).caller.Sees(n.Name) {
			list = append(list, n)
		}
	}
	return writeValue(c, http.StatusOK, map[string]any{"namespaces": list})
}

// get answers one namespace. One that is not there and one that the caller's grants do not reach are refused
// alike.
func (s *namespaceService) get(c echo.Context) error {
	all := s.backend.Namespaces()
	at := slices.IndexFunc(all, func(n view.Namespace) bool { return n.Name == c.Param("ns") })
	if at < 0 || !callOf(c).caller.Sees(all[at].Name) {
		return noSuchNamespace()
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	stored, err := s.backend.NamespaceUse(ctx, all[at].Name)
	var used view.Usage
	if err == nil && s.limits != nil {
		used, err = s.limits.Use(ctx, all[at].Name)
	}
	if err != nil {
		return s.readFailed(err)
	}
	used.Pending, used.Dead = int64(stored.Pending), int64(stored.Dead)
	used.Bytes, used.Queues = int64(stored.Bytes), int64(stored.Queues)
	all[at].Used = &used
	return writeValue(c, http.StatusOK, all[at])
}

func noSuchNamespace() *problem {
	return &problem{kind: namespaceNotFound, detail: "no namespace has this name"}
}

// put makes a namespace, or replaces all its quotas.
func (s *namespaceService) put(c echo.Context) error {
	name := c.Param("ns")
	if err := access.CheckNamespace("namespace", name); err != nil {
		return err
	}
	quotas, err := bodyOf(s.core, c, parseQuotas)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	made, created, err := s.backend.PutNamespace(ctx, name, quota.Limits(quotas))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return writeValue(c, status, made)
}

// remove begins the deletion of a namespace with all that is in it. The namespace refuses calls at once.
func (s *namespaceService) remove(c echo.Context) error {
	if err := s.emptyBody(c); err != nil {
		return err
	}
	name := c.Param("ns")
	if name == task.DefaultNamespace {
		return &problem{kind: impossible, detail: "the default namespace always exists"}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	op, err := s.backend.DeleteNamespace(ctx, name)
	switch {
	case err != nil:
		return err
	case op == nil:
		return noSuchNamespace()
	}
	return writeBegun(c, op)
}

// Bounds of quotas, so that they are exact in JSON. Backend has narrower ones.
const (
	mostQuota      = 1 << 50
	mostPerSecond  = 1e9
	leastPerSecond = 0.001
)

// parseQuotas reads the body of a PUT of a namespace. An empty body has no quotas.
func parseQuotas(data []byte) (q view.Quotas, err error) {
	err = quotaMembers(&q).Optional(data)
	return q, err
}

// quotaMembers are the members of quotas.
func quotaMembers(q *view.Quotas) contract.Members {
	whole := func(place *int64) contract.Member { return contract.Whole(place, 1, mostQuota) }
	rate := func(place *float64) contract.Member {
		return contract.Into(place, func(r *contract.Reader, full string) (float64, error) {
			return r.Number(full, leastPerSecond, mostPerSecond)
		})
	}
	return contract.Members{
		"max_pending": whole(&q.MaxPending), "max_bytes": whole(&q.MaxBytes), "max_payload": whole(&q.MaxPayload),
		"max_consumers": whole(&q.MaxConsumers), "max_queues": whole(&q.MaxQueues),
		"schedules_per_second": rate(&q.SchedulesPerSecond), "calls_per_second": rate(&q.CallsPerSecond),
		"weight": contract.Whole(&q.Weight, 1, 1<<31),
	}
}
