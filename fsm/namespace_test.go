package fsm

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// TestNamespaceUse checks that each namespace counts its own tasks, bytes and queues, up and down.
func TestNamespaceUse(t *testing.T) {
	m := New(1)
	schedule := func(namespace, queue string, n int) {
		entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
		for i := range n {
			c := scheduleCommand(fmt.Sprintf("%s-%d", queue, i), 1_000_000)
			c.Namespace, c.GetSchedule().Spec = namespace, &fsmpb.Spec{Queue: queue, Payload: make([]byte, 1000)}
			entry.Commands = append(entry.Commands, c)
		}
		applyBytes(t, m, mustMarshal(entry))
	}
	expect := func(namespace string, pending, queues uint64) {
		t.Helper()
		use := m.NamespaceUse(namespace)
		if use.Pending != pending || use.Queues != queues || use.Dead != 0 {
			t.Errorf("%s: %+v", namespace, use)
		}
		if use.Bytes < 1000*pending || use.Bytes > 1300*pending {
			t.Errorf("%s: %d bytes of %d tasks", namespace, use.Bytes, pending)
		}
	}
	expect("", 0, 0)
	schedule("", "", 3)
	schedule("", "q", 2)
	schedule("other", "q", 4)
	schedule("other", "q", 4) // replaces them
	expect("", 5, 2)
	expect(task.DefaultNamespace, 5, 2)
	expect("other", 4, 1)
	expect("third", 0, 0)
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
	for i := range 4 {
		entry.Commands = append(entry.Commands, &fsmpb.Command{
			Namespace: "other", Id: fmt.Sprintf("q-%d", i), Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}})
	}
	applyBytes(t, m, mustMarshal(entry))
	expect("other", 0, 1) // the tombstones keep the queue
	expect("", 5, 2)
}
