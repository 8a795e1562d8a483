package fsm

import (
	"fmt"
	"strings"
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

// TestNamespaceUseCountsAllParts checks that the bytes of a namespace contain all that its tasks hold, whether tasks
// share a value or not, and that nothing is left when they are gone.
func TestNamespaceUseCountsAllParts(t *testing.T) {
	const tasks = 20
	long := strings.Repeat("x", 255)
	for name, specOf := range map[string]func(i int) *fsmpb.Spec{
		"a URL": func(i int) *fsmpb.Spec {
			return &fsmpb.Spec{Target: &fsmpb.Target{Url: fmt.Sprintf("http://h/%d/%s", i, long)}}
		},
		"one URL": func(int) *fsmpb.Spec { return &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://h/" + long}} },
		"a header": func(i int) *fsmpb.Spec {
			return &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://h/", Headers: []*fsmpb.Header{{Name: "x-a", Value: fmt.Sprint(i, long)}}}}
		},
		"a label": func(i int) *fsmpb.Spec {
			return &fsmpb.Spec{Labels: []*fsmpb.Label{{Name: fmt.Sprint("l", i), Value: long}}}
		},
		"one label":      func(int) *fsmpb.Spec { return &fsmpb.Spec{Labels: []*fsmpb.Label{{Name: "l", Value: long}}} },
		"a content type": func(i int) *fsmpb.Spec { return &fsmpb.Spec{ContentType: fmt.Sprint("a/b;c=", i, long[:240])} },
		"a payload":      func(int) *fsmpb.Spec { return &fsmpb.Spec{Payload: []byte(long)} },
	} {
		m := New(1)
		all := func(op func(i int, c *fsmpb.Command)) {
			entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
			for i := range tasks {
				c := scheduleCommand(fmt.Sprint("t", i), 1_000_000)
				op(i, c)
				entry.Commands = append(entry.Commands, c)
			}
			applyBytes(t, m, mustMarshal(entry))
		}
		for range 2 { // the second time replaces the tasks
			all(func(i int, c *fsmpb.Command) { c.GetSchedule().Spec = specOf(i) })
			for _, replica := range []*Machine{m, restored(t, m)} {
				if bytes := replica.NamespaceUse("").Bytes; bytes < tasks*(task.RecordBytes+240) || bytes > tasks*(task.RecordBytes+400) {
					t.Errorf("%s: %d bytes", name, bytes)
				}
			}
		}
		all(func(_ int, c *fsmpb.Command) { c.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}} })
		if bytes := m.NamespaceUse("").Bytes; bytes != 0 {
			t.Errorf("%s: %d bytes are left", name, bytes)
		}
	}
}
