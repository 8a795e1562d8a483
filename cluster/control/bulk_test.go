package control

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func beginBulk(id, namespace string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_BeginBulk{BeginBulk: &clusterpb.BeginBulk{
		Operation: &clusterpb.BulkOperation{
			Id: id, Kind: clusterpb.BulkKind_BULK_KIND_CANCEL, Namespace: namespace, Call: 7,
		},
	}}}
}

func stopBulk(id string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_StopBulk{StopBulk: &clusterpb.StopBulk{Id: id}}}
}

// TestBulkOperationsBeginAndStop changes bulk operations through a group of one replica, which has no way to tasks and
// so carries none on.
func TestBulkOperationsBeginAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := single(t, idleShards{})
		leads := func() bool { return g.leading.Load() != nil }
		until(t, g, "leading", func(*clusterpb.ControlState) bool { return leads() })
		change := func(e *clusterpb.ControlEntry) *clusterpb.ControlChanged {
			t.Helper()
			changed, err := g.Change(t.Context(), asking(e))
			assert.NoError(t, err)
			return changed
		}
		first := change(beginBulk("op-1", "default"))
		if op := first.Bulk; op.GetId() != "op-1" || op.BeganMs == 0 || op.Call != 7 || first.Impossible != "" {
			t.Fatalf("begun: %v", first)
		}
		again := change(beginBulk("op-1", "other"))
		assert.Equal(t, again.Bulk, first.Bulk, "begun again: %v", again)
		none := change(beginBulk("op-2", "none"))
		assert.Contains(t, none.Impossible, "namespace none", "in a namespace that does not exist: %v", none)
		if none := change(stopBulk("op-9")); none.Bulk != nil || none.Impossible != "" {
			t.Errorf("none to stop: %v", none)
		}
		for range 2 {
			op := change(stopBulk("op-1")).Bulk
			assert.Equal(t, op.GetState(), clusterpb.OperationState_OPERATION_STATE_STOPPED, "stopped: %v", op)
		}
	})
}

// TestDeletionOfANamespaceEndsItsBulkOperations applies the entries of a deletion.
func TestDeletionOfANamespaceEndsItsBulkOperations(t *testing.T) {
	s := applied(t, applied(t, formed(t), beginBulk("a", "shop")), beginBulk("b", "default"))
	s = applied(t, s, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteNamespace{
		DeleteNamespace: &clusterpb.DeleteNamespace{Name: "shop", Operation: "op", AtMs: 9},
	}})
	if a, b := FindBulk(s, "a"), FindBulk(s, "b"); a.GetEndedMs() != 9 || b.GetEndedMs() != 0 {
		t.Errorf("after the deletion has begun: %v, %v", a, b)
	}
	s = applied(t, s, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndNamespace{
		EndNamespace: &clusterpb.EndNamespace{Name: "shop", AtMs: 10},
	}})
	if a, b := FindBulk(s, "a"), FindBulk(s, "b"); a != nil || b == nil {
		t.Errorf("after its end: %v, %v", a, b)
	}
}

// bulkBook is a record that entries come to.
type bulkBook struct{ state *clusterpb.ControlState }

func newBulkBook() *bulkBook {
	return &bulkBook{&clusterpb.ControlState{Namespaces: []*clusterpb.Namespace{
		{Name: "old", State: clusterpb.NamespaceState_NAMESPACE_STATE_DELETING}, {Name: "shop"},
	}}}
}

// try applies an entry, and checks that readers of the old
// state see no change.
func (b *bulkBook) try(t testing.TB, entry *clusterpb.ControlEntry) error {
	kept := proto.CloneOf(b.state)
	next, err := Apply(b.state, proto.CloneOf(entry))
	if !proto.Equal(kept, b.state) {
		t.Fatalf("%v has changed the state that readers hold", entry)
	}
	if err == nil {
		b.state = next
	}
	return err
}

func (b *bulkBook) do(t testing.TB, entry *clusterpb.ControlEntry) {
	t.Helper()
	assert.NoError(t, b.try(t, entry))
}

func (b *bulkBook) refuses(t testing.TB, what string, entry *clusterpb.ControlEntry) {
	t.Helper()
	kept := b.state
	if err := b.try(t, entry); !errors.Is(err, ErrRefused) || b.state != kept {
		t.Errorf("%s: %v", what, err)
	}
}

func beginEntry(id, namespace string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_BeginBulk{BeginBulk: &clusterpb.BeginBulk{
		Operation: &clusterpb.BulkOperation{Id: id, Kind: clusterpb.BulkKind_BULK_KIND_CANCEL, Namespace: namespace, BeganMs: 1},
	}}}
}

func pinEntry(id string, number uint64, tasks int, walked bool) *clusterpb.ControlEntry {
	page := &clusterpb.PinBulk{Id: id, Number: number, Slot: uint32(number), Walked: walked, AtMs: 5}
	for i := range tasks {
		page.Tasks = append(page.Tasks, &clusterpb.BulkTask{Id: fmt.Sprint(i)})
	}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_PinBulk{PinBulk: page}}
}

func countEntry(id string, number uint64, counts ...*clusterpb.BulkCount) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_CountBulk{CountBulk: &clusterpb.CountBulk{
		Id: id, Number: number, Outcomes: counts, AtMs: 6,
	}}}
}

func cancelled(n uint64) *clusterpb.BulkCount {
	return &clusterpb.BulkCount{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_CANCELLED, Tasks: n}
}

// TestEntriesOfAnOperation takes an operation through its life, and repeats each entry.
func TestEntriesOfAnOperation(t *testing.T) {
	b := newBulkBook()
	b.refuses(t, "no id", beginEntry("", "default"))
	b.refuses(t, "an unknown namespace", beginEntry("a", "none"))
	b.refuses(t, "a namespace that is being deleted", beginEntry("a", "old"))
	b.do(t, beginEntry("a", "shop"))
	b.do(t, beginEntry("a", "shop"))
	assert.MustEqual(t, len(b.state.Bulks), 1, "begun twice: %v", b.state.Bulks)
	b.refuses(t, "a count without a page", countEntry("a", 0))
	b.refuses(t, "a page of another number", pinEntry("a", 2, 3, false))
	b.refuses(t, "a page that is too large", pinEntry("a", 1, pageTasks+1, false))
	b.do(t, pinEntry("a", 1, 3, false))
	b.refuses(t, "the same page", pinEntry("a", 1, 3, false))
	b.refuses(t, "the next page", pinEntry("a", 2, 3, false))
	b.refuses(t, "too few outcomes", countEntry("a", 1, cancelled(2)))
	b.refuses(t, "outcomes of another page", countEntry("a", 2, cancelled(3)))
	gone := &clusterpb.BulkCount{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_GONE, Tasks: 1}
	b.do(t, countEntry("a", 1, gone, cancelled(2)))
	b.refuses(t, "the same outcomes", countEntry("a", 1, gone, cancelled(2)))
	b.do(t, pinEntry("a", 2, 0, false)) // moves the walk on
	b.do(t, pinEntry("a", 3, 2, true))
	b.do(t, countEntry("a", 3, cancelled(2)))
	op := FindBulk(b.state, "a")
	if op.State != bulkDone || op.EndedMs != 6 || op.Matched != 5 || fmt.Sprint(outcomes(op)) != "map[cancelled:4 gone:1]" ||
		BulkPercent(op, task.Slots) != 100 {
		t.Errorf("ended: %v", op)
	}
	b.refuses(t, "a page after the end", pinEntry("a", 4, 1, false))
	b.do(t, stopEntry("a"))
	b.do(t, stopEntry("none"))
	assert.Equal(t, FindBulk(b.state, "a"), op, "a stop after the end has changed")
}

// TestStopsOfAnOperation stops one between two pages, one with a pinned page, and one with its last page pinned.
func TestStopsOfAnOperation(t *testing.T) {
	b := newBulkBook()
	b.do(t, beginEntry("a", "shop"))
	b.do(t, stopEntry("a"))
	if op := FindBulk(b.state, "a"); op.State != bulkStopped || op.EndedMs != 7 || op.Detail == "" || op.Stopping {
		t.Errorf("between two pages: %v", op)
	}
	b.do(t, beginEntry("b", "shop"))
	b.do(t, pinEntry("b", 1, 2, false))
	b.do(t, stopEntry("b"))
	if op := FindBulk(b.state, "b"); op.State != bulkRunning || !op.Stopping || len(op.Pinned) != 2 {
		t.Errorf("with a page: %v", op)
	}
	b.do(t, countEntry("b", 1, cancelled(2)))
	if op := FindBulk(b.state, "b"); op.State != bulkStopped || op.Matched != 2 || SumOutcomes(op.Outcomes) != 2 || op.EndedMs != 6 {
		t.Errorf("after the page: %v", op)
	}
	b.do(t, beginEntry("c", "shop"))
	b.do(t, pinEntry("c", 1, 2, true))
	b.do(t, stopEntry("c"))
	b.do(t, countEntry("c", 1, cancelled(2)))
	if op := FindBulk(b.state, "c"); op.State != bulkDone || op.Detail != "" {
		t.Errorf("with its last page: %v", op)
	}
}

// TestDeletedNamespaceStopsItsOperations deletes a namespace with an operation under way.
func TestDeletedNamespaceStopsItsOperations(t *testing.T) {
	b := newBulkBook()
	b.do(t, beginEntry("a", "shop"))
	b.do(t, pinEntry("a", 1, 2, false))
	b.do(t, beginEntry("b", "default"))
	stopBulksIn(b.state, "shop", 9)
	op := FindBulk(b.state, "a")
	if op.State != bulkStopped || op.EndedMs != 9 || len(op.Pinned) > 0 || op.Detail == "" {
		t.Errorf("in the namespace: %v", op)
	}
	other := FindBulk(b.state, "b")
	assert.Equal(t, other.State, bulkRunning, "in another one: %v", other)
	b.refuses(t, "its outcomes", countEntry("a", 1, cancelled(2)))
	forgetBulks(b.state, "shop")
	if FindBulk(b.state, "a") != nil || FindBulk(b.state, "b") == nil {
		t.Errorf("after the end of the namespace: %v", b.state.Bulks)
	}
}

// TestNumbersOfOperations begins as many as may be, and forgets the oldest ended ones.
func TestNumbersOfOperations(t *testing.T) {
	b := newBulkBook()
	for i := range maxEndedBulks + 5 {
		b.do(t, beginEntry(fmt.Sprint("ended", i), "shop"))
		b.do(t, stopEntry(fmt.Sprint("ended", i)))
	}
	if len(b.state.Bulks) != maxEndedBulks || b.state.Bulks[0].Id != "ended5" {
		t.Errorf("%d are kept, from %s on", len(b.state.Bulks), b.state.Bulks[0].Id)
	}
	for i := range maxRunningBulks {
		b.do(t, beginEntry(fmt.Sprint("running", i), "shop"))
	}
	b.refuses(t, "one too many", beginEntry("more", "shop"))
	b.do(t, stopEntry("running3"))
	b.do(t, beginEntry("more", "shop"))
}

// TestAnyEntriesKeepTheSums applies entries in any order, and checks the sums of every operation after each.
func TestAnyEntriesKeepTheSums(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBulkBook()
		ended := map[string]*clusterpb.BulkOperation{}
		for range rapid.IntRange(1, 60).Draw(rt, "entries") {
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "id")
			number := FindBulk(b.state, id).GetPages() + rapid.Uint64Range(0, 2).Draw(rt, "ahead")
			n := rapid.IntRange(0, 3).Draw(rt, "tasks")
			entry := rapid.SampledFrom([]*clusterpb.ControlEntry{
				beginEntry(id, "shop"), pinEntry(id, number, n, rapid.IntRange(0, 9).Draw(rt, "last") == 0),
				countEntry(id, number, cancelled(uint64(n))), stopEntry(id),
			}).Draw(rt, "entry")
			if err := b.try(t, entry); err != nil && !errors.Is(err, ErrRefused) {
				rt.Fatal(err)
			}
			for _, op := range b.state.Bulks {
				checkSums(rt, op)
				if old := ended[op.Id]; old != nil && old != op {
					rt.Fatalf("%v has ended, and became %v", old, op)
				}
				if op.EndedMs > 0 {
					ended[op.Id] = op
				}
			}
		}
	})
}

func checkSums(rt *rapid.T, op *clusterpb.BulkOperation) {
	open := uint64(len(op.Pinned))
	switch {
	case op.Matched != SumOutcomes(op.Outcomes)+open:
		rt.Fatalf("%d tasks are not the sum of %v", op.Matched, op)
	case (op.State == bulkRunning) != (op.EndedMs == 0), op.EndedMs > 0 && (open > 0 || op.Stopping):
		rt.Fatalf("the end of %v", op)
	case op.State == bulkRunning && op.Walked && open == 0:
		rt.Fatalf("%v has nothing left to do", op)
	}
}
