package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// readPatience is how long a read may hang at one node before the router asks the present leader.
const readPatience = time.Second

// The bounds on the cost of one page, however little it finds. A page may be short.
const (
	shardsAPage      = 16
	payloadTasksPage = 64 // tasks with their payload, in one answer between nodes: 16 MiB
)

// Get returns the task, or nil if there is none. It is linearizable. With stale it asks the nearest replica, which
// answers from the entries that it has applied.
func (r *Router) Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error) {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	l := r.layout()
	if l == nil {
		return nil, errNoMap
	}
	slot := task.Slot(namespace, id)
	shard := l.slots[slot].Shard
	ask := &clusterpb.GetCall{Namespace: namespace, Id: id, Stale: stale}
	for way := (chase{}); ; {
		found, err := read[*fsmpb.Task](ctx, r, shard, stale, ask)
		if moved := movedIn(err); moved == nil || !way.wait(ctx, moved.Moving) {
			return found, err
		}
		shard = r.ownerOf(slot, err)
	}
}

// List returns one page, from the query's cursor on, over all shards. Each shard's part is linearizable by itself, or
// stale. ListPage.More reports that there may be more tasks behind the page's cursor, also if the page is short or
// empty.
func (r *Router) List(ctx context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	l := r.layout()
	if l == nil {
		return nil, errNoMap
	}
	limit := int(q.Limit)
	if limit == 0 {
		limit = task.DefaultListLimit
	}
	if q.IncludePayload {
		limit = min(limit, payloadTasksPage)
	}
	if q.Order == fsmpb.ListOrder_LIST_ORDER_DUE {
		return r.listDue(ctx, q, limit, stale)
	}
	page := &fsmpb.ListPage{More: true, Slot: q.Slot, AfterId: q.AfterId}
	way := chase{}
	for range shardsAPage {
		if page.Slot >= task.Slots {
			page.More, page.Slot, page.AfterId = false, 0, ""
			return page, nil
		}
		if len(page.Tasks) >= limit {
			return page, nil
		}
		err := r.listShard(ctx, l.slots[page.Slot], q, limit, stale, page)
		if moved := movedIn(err); moved != nil && way.wait(ctx, true) {
			l = r.layout()
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// listShard adds one shard's tasks to the page, and advances the page's cursor.
func (r *Router) listShard(ctx context.Context, slots *clusterpb.SlotRange, q *fsmpb.ListQuery, limit int, stale bool,
	page *fsmpb.ListPage) error {
	ask := proto.CloneOf(q)
	ask.Slot, ask.AfterId, ask.Limit = page.Slot, page.AfterId, uint32(limit-len(page.Tasks))
	ask.End = slots.End
	flawListsDefault(ask)
	got, err := read[*fsmpb.ListPage](ctx, r, slots.Shard, stale, &clusterpb.ListCall{Query: ask, Stale: stale})
	if err != nil {
		return err
	}
	page.Tasks = append(page.Tasks, got.GetTasks()...)
	page.Slot, page.AfterId = slots.End, ""
	if got.GetMore() {
		page.Slot, page.AfterId = got.Slot, got.AfterId
	}
	return nil
}

// read asks nodes for an answer until one has it, or the caller's time is over.
func read[A proto.Message](
	ctx context.Context, r *Router, shard uint32, stale bool, request proto.Message,
) (A, error) {
	return readWithin(ctx, r, shard, stale, readPatience, asking[A](shard, request))
}

// asking returns the function that asks a node.
func asking[A proto.Message](shard uint32, request proto.Message) func(context.Context, calls.Node) (A, error) {
	return func(ctx context.Context, n calls.Node) (A, error) { return calls.Ask[A](ctx, n, shard, request) }
}

// readWithin asks nodes until one answers, or the caller's time is over. Each node has the given time.
func readWithin[T any](ctx context.Context, r *Router, shard uint32, stale bool, limit time.Duration,
	ask func(context.Context, calls.Node) (T, error)) (T, error) {
	t := r.newTry(shard)
	for {
		answer, err := readOnce(ctx, t, stale, limit, ask)
		if err == nil && !stale {
			t.Found()
		}
		if err == nil || !calls.Repeatable(err) || movedIn(err) != nil {
			return answer, err
		}
		if err := t.again(ctx, err); err != nil {
			return answer, err
		}
	}
}

func readOnce[T any](
	ctx context.Context, t *try, stale bool, limit time.Duration, ask func(context.Context, calls.Node) (T, error),
) (T, error) {
	var none T
	var node string
	if stale || flawReadsStale() {
		node = t.NextReplica(t.r.cfg.Self) // this one if it holds a replica that was not asked yet
	} else {
		node = t.Next()
	}
	n := t.at(node)
	if n == nil {
		return none, &task.NotLeaderError{Shard: t.shard}
	}
	once, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := ask(once, n)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, task.ErrUnknown) {
		// A read changes nothing, so it may be repeated.
		err = fmt.Errorf("%w: a read: %v", task.ErrNotProposed, err) //nolint:errorlint // hides err's kind
	}
	return answer, err
}
