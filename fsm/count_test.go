package fsm

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// With a few dead letters among many tasks, a list of dead letters finds each once, in a few pages. It finds none if
// there are none.
func TestListSkipsSlots(t *testing.T) {
	m := New(1)
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
	for i := range 20_000 {
		entry.Commands = append(entry.Commands, scheduleCommand(fmt.Sprintf("t-%d", i), 1_000_000))
	}
	for i := range 3 {
		entry.Commands = append(entry.Commands, scheduleCommand(fmt.Sprintf("dead-%d", i), 1000))
	}
	entry.Commands = append(entry.Commands, advanceCommand(1000))
	applied := applyBytes(t, m, mustMarshal(entry))
	if pages, found := listDead(m); len(found) != 0 || pages > 2 {
		t.Fatalf("before any died: %v in %d pages", found, pages)
	}
	bury := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
	for _, g := range applied.Grants {
		op := &fsmpb.Settle{Fence: g.Fence, Occurrence: g.Occurrence, Verdict: fsmpb.Verdict_VERDICT_DEAD}
		bury.Commands = append(bury.Commands, &fsmpb.Command{Id: g.ID, Op: &fsmpb.Command_Settle{Settle: op}})
	}
	applyBytes(t, m, mustMarshal(bury))
	if pages, found := listDead(m); len(found) != 3 || pages > 2 {
		t.Fatalf("found %v in %d pages", found, pages)
	}
}

func listDead(m *Machine) (pages int, found []string) {
	q := &fsmpb.ListQuery{States: []fsmpb.State{fsmpb.State_STATE_DEAD}, Limit: 100}
	for {
		page := m.List(q, task.Slots)
		pages++
		for _, task := range page.Tasks {
			found = append(found, task.Id)
		}
		if !page.More {
			return pages, found
		}
		q.Slot, q.AfterId = page.Slot, page.AfterId
	}
}

// A list may be bounded by the instants at which its tasks fire. The first bound belongs to the range, the second does
// not.
func TestListOfDueTimes(t *testing.T) {
	m := New(1)
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
	for i := range 10 {
		entry.Commands = append(entry.Commands, scheduleCommand(fmt.Sprintf("t-%d", i), int64(1_000_000+i)))
	}
	applyBytes(t, m, mustMarshal(entry))
	for _, c := range []struct {
		after, before int64
		want          int
	}{{0, 0, 10}, {1_000_003, 0, 7}, {0, 1_000_003, 3}, {1_000_003, 1_000_005, 2}, {1_000_010, 0, 0}} {
		page := m.List(&fsmpb.ListQuery{Limit: 100, DueAfterMs: c.after, DueBeforeMs: c.before}, task.Slots)
		if len(page.Tasks) != c.want {
			t.Errorf("from %d to %d: %d tasks, want %d", c.after, c.before, len(page.Tasks), c.want)
		}
		for _, v := range page.Tasks {
			if v.FireAtMs < c.after || c.before > 0 && v.FireAtMs >= c.before {
				t.Errorf("from %d to %d: %v", c.after, c.before, v)
			}
		}
	}
}

// A page of large tasks is short, and all pages together have every task.
func TestListCopiesLittleAtOnce(t *testing.T) {
	const tasks, size = 30, 256 << 10
	m := New(1)
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
	for i := range tasks {
		c := scheduleCommand(fmt.Sprintf("t-%d", i), 1_000_000)
		c.GetSchedule().Spec = &fsmpb.Spec{Payload: make([]byte, size)}
		entry.Commands = append(entry.Commands, c)
	}
	applyBytes(t, m, mustMarshal(entry))
	found := map[string]bool{}
	q := &fsmpb.ListQuery{Limit: 1000, IncludePayload: true}
	for more := true; more; {
		page := m.List(q, task.Slots)
		if len(page.Tasks)*size > 1<<20+size {
			t.Fatalf("%d tasks in a page", len(page.Tasks))
		}
		for _, task := range page.Tasks {
			found[task.Id] = true
		}
		more, q.Slot, q.AfterId = page.More, page.Slot, page.AfterId
	}
	if len(found) != tasks {
		t.Errorf("%d tasks of %d were listed", len(found), tasks)
	}
	q = &fsmpb.ListQuery{Limit: 1000}
	if page := m.List(q, task.Slots); page.More || len(page.Tasks) != tasks {
		t.Errorf("without payloads a page ends after %d tasks", len(page.Tasks))
	}
}

// BenchmarkQueueCounts shows that the cost is the same at a hundred tasks and at a million.
func BenchmarkQueueCounts(b *testing.B) {
	for _, n := range []int{100, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := benchMachine(b, n)
			for b.Loop() {
				if m.QueueCounts("", "", benchStart).Scheduled != uint64(n) {
					b.Fatal("miscounted")
				}
			}
		})
	}
}
