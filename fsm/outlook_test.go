package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

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
	if want := []uint64{queues, 3 * queues, 4 * queues, 5 * queues, 6 * queues}; !slices.Equal(o.Within, want) {
		t.Errorf("due within the horizons: %v, want %v", o.Within, want)
	}
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
