package fsm

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

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
