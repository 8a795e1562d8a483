package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// Operations are the nodes and shards of the cluster, and the operations on them.
type Operations interface {
	Bulk

	// Cluster returns this node's view of the cluster's nodes and shards.
	Cluster(ctx context.Context) (view.Cluster, error)

	// Begin begins an operation and returns it, or returns the plan of a preview. It returns an operation that has the
	// request's id, or an equal one that is under way, instead.
	Begin(ctx context.Context, r OperationRequest) (*view.Operation, *view.Plan, error)
}

// OperationRequest is what an operator asks of the cluster.
type OperationRequest struct {
	ID          string // of the operation, if the call has an idempotency key; empty: a new one
	Kind        string // drain, rest, resume, remove, replace, replication, split, move_slots, balance or keep_slots
	Node        string // id or name, if Kind is about a node
	Replication uint32 // replication factor, if Kind is replication
	Shard       uint32 // shard to split, if Kind is split
	// To is the shard that gets the slots if Kind is move_slots, and the number of shards if Kind is balance; 0: as many
	// as there are.
	To      uint32
	Slots   view.SlotList // if Kind is move_slots
	Preview bool          // nothing begins
}

// operationService answers the calls about the cluster as a whole, its operations and bulk operations.
type operationService struct {
	*core
	backend Operations
}

// The kinds of operations.
const (
	drainNode      = "drain"
	restNode       = "rest" // drain with leaders: the node keeps its replicas
	resumeNode     = "resume"
	setReplication = "replication"
	splitShard     = "split"
	moveSlots      = "move_slots"
	balanceShards  = "balance"
	keepSlots      = "keep_slots" // stops a split, a move or a balance

	deleteNamespace = "delete_namespace"

	isRunning = "running" // state of an operation under way
)

// listNodes answers the nodes with their orders, replicas and disks.
func (s *operationService) listNodes(c echo.Context) error {
	v, err := s.clusterView(c)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, map[string]any{"nodes": v.Nodes})
}

func (s *operationService) list(c echo.Context) error {
	operations, err := s.visible(c)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, map[string]any{"operations": operations})
}

func (s *operationService) get(c echo.Context) error {
	op, err := s.find(c)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, op)
}

// visible returns the operations that the caller may know: operations on namespaces within its grants, and all others
// if it may read about the whole cluster. A call below a namespace is about the operations on that one.
func (s *operationService) visible(c echo.Context) ([]view.Operation, error) {
	v, err := s.clusterView(c)
	cl := callOf(c)
	return slices.DeleteFunc(v.Operations, func(op view.Operation) bool {
		return cl.need.reach == oneNamespace && op.Namespace != cl.namespace ||
			!cl.caller.Allows(access.Need{Role: access.Read, Namespace: op.Namespace})
	}), err
}

func (s *operationService) find(c echo.Context) (*view.Operation, error) {
	operations, err := s.visible(c)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(operations, func(op view.Operation) bool { return op.ID == c.Param("id") })
	if at < 0 {
		return nil, &problem{kind: operationNotFound,
			detail: "no operation has this id; the cluster remembers those under way and some that have ended"}
	}
	return &operations[at], nil
}

// stop ends an operation that is under way: its node is resumed, or its slots stay where they are. A change of
// the replication factor is taken back by another one.
func (s *operationService) stop(c echo.Context) error {
	if err := s.emptyBody(c); err != nil {
		return err
	}
	op, err := s.find(c)
	switch {
	case err != nil:
		return err
	case op.Kind == bulkKind:
		return s.stopBulk(c, op)
	}
	if err := callOf(c).checkCluster(); err != nil {
		return err
	}
	switch {
	case op.State != isRunning:
		return &problem{kind: impossible, detail: fmt.Sprintf("the operation is %s; begin another one", op.State)}
	case op.Kind == deleteNamespace:
		return &problem{kind: impossible, detail: "the deletion of a namespace is final"}
	case op.Kind == setReplication:
		return &problem{kind: impossible, detail: "set the replication factor that you want instead: PUT /v1/cluster, or " +
			"`belfry cluster replication`"}
	}
	return s.begin(c, stopOf(op))
}

// stopOf returns the operation that ends another one.
func stopOf(op *view.Operation) OperationRequest {
	switch op.Kind {
	case splitShard, moveSlots, balanceShards, keepSlots:
		return OperationRequest{Kind: keepSlots}
	}
	return OperationRequest{Kind: resumeNode, Node: op.Node}
}

// onNode returns the handler that begins a kind of operation on a node.
func (s *operationService) onNode(kind string) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, leaders := OperationRequest{Kind: kind, Node: c.Param("id")}, false
		members := contract.Members{}
		if kind == drainNode {
			members["leaders"] = contract.Bool(&leaders)
		}
		if err := s.read(c, &r, members); err != nil {
			return err
		}
		if leaders {
			r.Kind = restNode
		}
		return s.begin(c, r)
	}
}

// putCluster sets the replication factor.
func (s *operationService) putCluster(c echo.Context) error {
	r := OperationRequest{Kind: setReplication}
	members := contract.Members{"replication": contract.Into(&r.Replication, factor)}
	if err := s.read(c, &r, members); err != nil {
		return err
	}
	if r.Replication == 0 {
		return &task.FieldError{Field: "replication", Detail: "is absent", Limit: factors}
	}
	return s.begin(c, r)
}

const factors = "1, 3 or 5"

// read reads the body of a call that begins an operation. An empty body has no members.
func (s *operationService) read(c echo.Context, into *OperationRequest, members contract.Members) error {
	members["preview"] = contract.Bool(&into.Preview)
	body, err := bind(c, s.bounds.BodyBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	return members.Optional(body.data)
}

// factor reads a replication factor.
func factor(r *contract.Reader, full string) (uint32, error) {
	n, err := r.Whole(full, 1, 7)
	if err == nil && n%2 == 0 {
		err = &task.FieldError{Field: full, Detail: fmt.Sprintf("is %d, and no odd number", n), Limit: factors}
	}
	return uint32(n), err
}

// begin begins an operation, or answers its plan.
func (s *operationService) begin(c echo.Context, r OperationRequest) error {
	r.ID = operationID(c.Request().Header.Get(keyHeader))
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	op, plan, err := s.backend.Begin(ctx, r)
	switch {
	case err != nil && r.Preview:
		return s.readFailed(err)
	case err != nil:
		return err
	case plan != nil:
		plan.Steps = orEmpty(plan.Steps)
		return writeValue(c, http.StatusOK, plan)
	case !answers(op, r):
		return &problem{kind: keyReused, field: keyHeader, detail: "was used before with another operation"}
	}
	return writeBegun(c, op)
}

// writeBegun answers with an operation that is under way.
func writeBegun(c echo.Context, op *view.Operation) error {
	op.Waits = orEmpty(op.Waits)
	callOf(c).noteMade("operation", op.ID)
	c.Response().Header().Set("Location", "/v1/operations/"+op.ID)
	return writeValue(c, http.StatusAccepted, op)
}

// answers reports whether an operation is the one that was asked for.
func answers(o *view.Operation, r OperationRequest) bool {
	onNode := o.Node == r.Node || strings.EqualFold(o.NodeName, r.Node)
	return string(o.Kind) == r.Kind && onNode && o.Replication == int(r.Replication) && o.Shard == int(r.Shard) &&
		o.To == int(r.To) && o.Slots == r.Slots.String()
}

// operationID returns the id of an operation that was asked for with an idempotency key: a repeat finds the same one.
func operationID(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return "op-" + hex.EncodeToString(sum[:8])
}

func (s *operationService) clusterView(c echo.Context) (view.Cluster, error) {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	v, err := s.backend.Cluster(ctx)
	if err != nil {
		return v, s.readFailed(err)
	}
	normalise(&v)
	return v, nil
}

// writeValue answers with a value as JSON.
func writeValue(c echo.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	writeJSON(c.Response(), status, append(body, '\n'))
	return nil
}

// mostShards is the largest number of a shard.
const mostShards = 256

const slotsRule = `ranges of 0 to 4095, like "0-511,1024"`

// slotList reads slots, and puts their ranges in order.
func slotList(r *contract.Reader, full string) (view.SlotList, error) {
	text, err := r.Text(full)
	if err != nil {
		return nil, err
	}
	var list view.SlotList
	for part := range strings.SplitSeq(text, ",") {
		one, ok := parseSlots(strings.TrimSpace(part))
		if !ok {
			return nil, &task.FieldError{
				Field: full, Detail: fmt.Sprintf("%q are no slots", contract.Clip(part)), Limit: slotsRule,
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b view.Slots) int { return cmp.Compare(a.First, b.First) })
	return joined(list)
}

// parseSlots reads "7" or "0-511".
func parseSlots(text string) (view.Slots, bool) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	return view.Slots{First: uint32(a), End: uint32(b) + 1}, errA == nil && errB == nil && a <= b && b < task.Slots
}

// joined returns the list with ranges joined that follow each other. A slot that is there twice is an error.
func joined(list view.SlotList) (view.SlotList, error) {
	var joined view.SlotList
	for _, r := range list {
		switch last := len(joined) - 1; {
		case last >= 0 && r.First < joined[last].End:
			return nil, &task.FieldError{
				Field: "slots", Detail: fmt.Sprintf("slot %d is there twice", r.First), Limit: slotsRule,
			}
		case last >= 0 && r.First == joined[last].End:
			joined[last].End = r.End
		default:
			joined = append(joined, r)
		}
	}
	return joined, nil
}

func (s *operationService) split(c echo.Context) error {
	n, err := strconv.ParseUint(c.Param("shard"), 10, 32)
	if err != nil || n < 1 || n > mostShards {
		return &task.FieldError{
			Field: "shard", Detail: fmt.Sprintf("%q is no number of a shard", contract.Clip(c.Param("shard"))),
			Limit: fmt.Sprintf("1 to %d", mostShards),
		}
	}
	r := OperationRequest{Kind: splitShard, Shard: uint32(n)}
	if err := s.read(c, &r, contract.Members{}); err != nil {
		return err
	}
	return s.begin(c, r)
}

func (s *operationService) move(c echo.Context) error {
	r := OperationRequest{Kind: moveSlots}
	members := contract.Members{"slots": contract.Into(&r.Slots, slotList), "to": contract.Whole(&r.To, 1, mostShards)}
	if err := s.read(c, &r, members); err != nil {
		return err
	}
	switch {
	case len(r.Slots) == 0:
		return &task.FieldError{Field: "slots", Detail: "is absent", Limit: slotsRule}
	case r.To == 0:
		return &task.FieldError{Field: "to", Detail: "is absent", Limit: "the number of a shard"}
	}
	return s.begin(c, r)
}

func (s *operationService) balance(c echo.Context) error {
	r := OperationRequest{Kind: balanceShards}
	members := contract.Members{"to": contract.Whole(&r.To, 1, mostShards)}
	if err := s.read(c, &r, members); err != nil {
		return err
	}
	return s.begin(c, r)
}

// normalise replaces nil lists by empty ones, so that they are [] in JSON and not null.
func normalise(v *view.Cluster) {
	v.Control.Voters, v.Nodes, v.Shards = orEmpty(v.Control.Voters), orEmpty(v.Nodes), orEmpty(v.Shards)
	v.Operations, v.SlotMoves = orEmpty(v.Operations), orEmpty(v.SlotMoves)
	for i := range v.Operations {
		v.Operations[i].Waits = orEmpty(v.Operations[i].Waits)
	}
	for i := range v.Shards {
		s := &v.Shards[i]
		s.Replicas, s.Target, s.Slots = orEmpty(s.Replicas), orEmpty(s.Target), orEmpty(s.Slots)
	}
}

// orEmpty returns a list, which is empty instead of nil.
func orEmpty[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

func (s *operationService) cluster(c echo.Context) error {
	v, err := s.clusterView(c)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, v)
}
