package router

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// A page in due order merges the pages of all shards, which are asked at once for a little more than their share of it.
// A shard whose page ends too early is asked again. At most asksAgain such calls make up a page, which may be short.
const (
	spareTasks = 16
	asksAgain  = 16
)

// listDue returns one page of at most limit tasks in due order.
func (r *Router) listDue(ctx context.Context, q *fsmpb.ListQuery, limit int, stale bool) (*fsmpb.ListPage, error) {
	for way := (chase{}); ; {
		page, err := r.mergeShards(ctx, q, limit, stale)
		if moved := movedIn(err); moved == nil || !way.wait(ctx, true) {
			return page, err
		}
	}
}

// shardList reads the tasks of one shard in due order.
type shardList struct {
	shard uint32
	ask   *fsmpb.ListQuery // for the next page
	tasks []*fsmpb.Task    // that are not merged yet
	dueMs []int64          // of these tasks
	more  bool             // there may be tasks behind the cursor of ask
}

// shardLists returns a list for each shard that owns slots, from the query's cursor on.
func (r *Router) shardLists(q *fsmpb.ListQuery) []*shardList {
	var lists []*shardList
	of := make(map[uint32]*shardList)
	for _, s := range r.cfg.Control.State().Slots {
		l := of[s.Shard]
		if l == nil {
			l = &shardList{shard: s.Shard, ask: proto.CloneOf(q), more: true}
			of[s.Shard], lists = l, append(lists, l)
		}
		l.ask.Slots = append(l.ask.Slots, &fsmpb.SlotRange{First: s.First, End: s.End})
	}
	return lists
}

func (r *Router) mergeShards(ctx context.Context, q *fsmpb.ListQuery, limit int, stale bool) (*fsmpb.ListPage, error) {
	lists := r.shardLists(q)
	share := uint32(min(limit, 2*limit/max(len(lists), 1)+spareTasks))
	var wg sync.WaitGroup
	errs := make([]error, len(lists))
	for i, l := range lists {
		wg.Go(func() { errs[i] = r.readList(ctx, l, share, stale) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	page := &fsmpb.ListPage{More: true, AfterDueMs: q.AfterDueMs, Slot: q.Slot, AfterId: q.AfterId}
	for again := asksAgain; len(page.Tasks) < limit; {
		first := firstList(lists)
		switch {
		case first == nil:
			return &fsmpb.ListPage{Tasks: page.Tasks, DueMs: page.DueMs}, nil
		case len(first.tasks) > 0:
			first.moveTo(page)
		case again == 0:
			page.AfterDueMs, page.Slot, page.AfterId = first.ask.AfterDueMs, first.ask.Slot, first.ask.AfterId
			return page, nil
		default:
			again--
			if err := r.readList(ctx, first, uint32(limit-len(page.Tasks)), stale); err != nil {
				return nil, err
			}
		}
	}
	page.More = firstList(lists) != nil
	return page, nil
}

// readList reads the next page of a shard's list.
func (r *Router) readList(ctx context.Context, l *shardList, limit uint32, stale bool) error {
	l.ask.Limit = limit
	got, err := read[*fsmpb.ListPage](ctx, r, l.shard, stale, &clusterpb.ListCall{Query: l.ask, Stale: stale})
	if err != nil {
		return err
	}
	l.tasks, l.dueMs, l.more = got.GetTasks(), got.GetDueMs(), got.GetMore()
	l.ask.AfterDueMs, l.ask.Slot, l.ask.AfterId = got.GetAfterDueMs(), got.GetSlot(), got.GetAfterId()
	return nil
}

// firstList returns the list whose next task, or whose cursor if the next task is not read yet, is the first one. It
// returns nil if all lists are at their ends.
func firstList(lists []*shardList) *shardList {
	var first *shardList
	for _, l := range lists {
		if (len(l.tasks) > 0 || l.more) && (first == nil || l.compare(first) < 0) {
			first = l
		}
	}
	return first
}

// compare orders lists by the places where they go on. A cursor comes before a task at the same place.
func (l *shardList) compare(other *shardList) int {
	due, slot, id := l.place()
	otherDue, otherSlot, otherID := other.place()
	return cmp.Or(cmp.Compare(due, otherDue), cmp.Compare(slot, otherSlot), strings.Compare(id, otherID))
}

func (l *shardList) place() (dueMs int64, slot uint32, id string) {
	if len(l.tasks) == 0 {
		return l.ask.AfterDueMs, l.ask.Slot, l.ask.AfterId
	}
	t := l.tasks[0]
	return l.dueMs[0], task.Slot(t.Namespace, t.Id), t.Id
}

// moveTo moves the list's next task to the end of a page.
func (l *shardList) moveTo(page *fsmpb.ListPage) {
	page.AfterDueMs, page.Slot, page.AfterId = l.place()
	page.Tasks, page.DueMs = append(page.Tasks, l.tasks[0]), append(page.DueMs, l.dueMs[0])
	l.tasks, l.dueMs = l.tasks[1:], l.dueMs[1:]
}
