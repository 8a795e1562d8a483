package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
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
				assert.MustEqual(b, m.QueueCounts("", "", benchStart).Scheduled, uint64(n), "miscounted")
			}
		})
	}
}

// The memory that tasks may come to take, and the free part of the present memory, follow the tasks' lives.
func TestCountsOfMemory(t *testing.T) {
	const tasks = 10_000
	m := New(1)
	each := func(command func(id string) *fsmpb.Command) {
		entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
		for i := range tasks {
			entry.Commands = append(entry.Commands, command(fmt.Sprintf("t-%d", i)))
		}
		applyBytes(t, m, mustMarshal(entry))
	}
	each(func(id string) *fsmpb.Command {
		c := scheduleCommand(id, 1_000_000)
		c.GetSchedule().Spec = &fsmpb.Spec{Payload: make([]byte, 100)}
		return c
	})
	full := m.Counts()
	if full.Coming != tasks*(64+64) || full.Free > full.Bytes/10 {
		t.Errorf("scheduled: %d bytes, %d free, %d coming", full.Bytes, full.Free, full.Coming)
	}
	each(func(id string) *fsmpb.Command {
		return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}
	})
	cancelled := m.Counts()
	if cancelled.Coming != 0 || cancelled.Bytes-cancelled.Free > full.Bytes {
		t.Errorf("cancelled: %d bytes, %d free, %d coming", cancelled.Bytes, cancelled.Free, cancelled.Coming)
	}
	for range tasks/2048 + 1 { // an advance takes 2048 tasks at most
		applyBytes(t, m, mustMarshal(&fsmpb.Entry{
			Version: CommandVersion, AtMs: 700_000, Commands: []*fsmpb.Command{advanceCommand(700_000)},
		}))
	}
	gone := m.Counts()
	if gone.Tasks != 0 || gone.Bytes-gone.Free > full.Bytes/5 {
		t.Errorf("forgotten: %d tasks, %d bytes, %d free", gone.Tasks, gone.Bytes, gone.Free)
	}
}

// QueueSizes yields each queue once if there are more queues than are read at once. A caller may stop early.
func TestQueueSizesYieldsEachQueueOnce(t *testing.T) {
	const queues = 2*queuesAtOnce + 7
	m := New(1)
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
	for i := range queues {
		c := scheduleCommand(fmt.Sprint("t-", i), 1_000_000)
		c.GetSchedule().Spec = &fsmpb.Spec{Queue: fmt.Sprint("q-", i)}
		entry.Commands = append(entry.Commands, c)
	}
	applyBytes(t, m, mustMarshal(entry))
	found := map[string]int{}
	for size := range m.QueueSizes(1000) {
		if size.Pending != 1 || size.Namespace != task.DefaultNamespace || size.Live() != 1 || size.OldestOverdueMs != 0 ||
			size.DueMinute != 0 || size.DueHour != 1 {
			t.Fatalf("%+v", size)
		}
		found[size.Queue]++
	}
	if len(found) != queues || found["q-0"] != 1 || found[fmt.Sprint("q-", queues-1)] != 1 {
		t.Errorf("%d queues were yielded, not %d", len(found), queues)
	}
	for range m.QueueSizes(1000) {
		break
	}
}

// An Outlook counts coming tasks of all queues by due time, and shows each of them at one place in the wheel.
func TestOutlook(t *testing.T) {
	const queues, now = 2*queuesAtOnce + 7, 1_000_000
	m := New(1)
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: now}
	for i, in := range []int64{500, 9_000, 9_001, 59_000, 400_000, 3_000_000, 90_000_000, 1 << 40} {
		for q := range queues {
			c := scheduleCommand(fmt.Sprint("t-", i, "-", q), now+in)
			c.GetSchedule().Spec = &fsmpb.Spec{Queue: fmt.Sprint("q-", q)}
			entry.Commands = append(entry.Commands, c)
		}
	}
	applyBytes(t, m, mustMarshal(entry))
	o := m.Outlook(now)
	want := []uint64{queues, 3 * queues, 4 * queues, 5 * queues, 6 * queues}
	assert.EqualSlices(t, o.Within, want, "due within the horizons")
	steps := make([]uint64, len(o.Steps))
	steps[0], steps[2], steps[14] = queues, 2*queues, queues
	if o.FirstMs != now || !slices.Equal(o.Steps, steps) {
		t.Errorf("from %d: %v, want %v", o.FirstMs, o.Steps, steps)
	}
	if sum := inRows(o); sum != 8*queues || o.Waiting != sum {
		t.Errorf("%d tasks wait, %d of them in the wheel's rows, want %d", o.Waiting, sum, 8*queues)
	}
	checkOutlookAfterCancels(t, m, now)
}

// inRows returns the number of tasks that an Outlook shows in the wheel.
func inRows(o *fsmpb.Outlook) uint64 {
	sum := o.Beside
	for _, row := range o.Rows {
		for _, n := range row.Tasks {
			sum += n
		}
	}
	return sum
}

// The wheel holds the cancelled tasks for ten minutes, and no Outlook counts them.
func checkOutlookAfterCancels(t *testing.T, m *Machine, now int64) {
	const queues = 2*queuesAtOnce + 7
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: now}
	for q := range queues {
		entry.Commands = append(entry.Commands, &fsmpb.Command{
			Id: fmt.Sprint("t-0-", q), Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}},
		})
	}
	applyBytes(t, m, mustMarshal(entry))
	o := m.Outlook(now + 595_000)
	want := []uint64{4 * queues, 4 * queues, 4 * queues, 4 * queues, 5 * queues}
	if o.Waiting != 7*queues || inRows(o) != 7*queues || !slices.Equal(o.Within, want) {
		t.Errorf("after cancels %d tasks wait, %d of them in the wheel's rows, %v within the horizons, want %v", o.Waiting,
			inRows(o), o.Within, want)
	}
}
