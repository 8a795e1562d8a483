package calls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

func ofNamespace(namespace, id string, payload int) []*fsmpb.Command {
	return []*fsmpb.Command{{Namespace: namespace, Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{Payload: make([]byte, payload)}}}}}
}

func commandsOf(cmds []*fsmpb.Command) *clusterpb.Call {
	return &clusterpb.Call{Op: &clusterpb.Call_Commands{Commands: &clusterpb.Commands{Commands: cmds}}}
}

// TestNamespacesTakeTurns checks that a call waits for one call of another namespace, and that the calls of each one
// keep their order.
func TestNamespacesTakeTurns(t *testing.T) {
	l := newLines()
	for i := range 100 {
		l.add(&pending{namespace: "storm", size: i})
	}
	var gone *pending
	for i := range 4 {
		k := &pending{namespace: "neighbour", size: i}
		l.add(k)
		if i == 1 {
			gone = k
		}
	}
	lonely := &pending{namespace: "lonely"}
	l.add(lonely)
	if !l.remove(gone) || l.remove(gone) || !l.remove(lonely) {
		t.Error("calls are not removed once")
	}
	var order []string
	for range 7 {
		k := l.take()
		order = append(order, fmt.Sprint(k.namespace, k.size))
	}
	want := []string{"storm0", "neighbour0", "storm1", "neighbour2", "storm2", "neighbour3", "storm3"}
	if !slices.Equal(order, want) {
		t.Errorf("%v", order)
	}
	for !l.empty() {
		l.take()
	}
	if len(l.byName) != 0 {
		t.Errorf("%d lines are left", len(l.byName))
	}
}

// TestOneNamespaceLocksNoOtherOut checks that a namespace whose calls stay without an answer leaves room for others.
func TestOneNamespaceLocksNoOtherOut(t *testing.T) {
	started := make(chan string, 100)
	s := serve(t, begun(started), func(cfg *ClientConfig) { cfg.MaxOutstanding = 10_000 })
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, 100)
	call := func(namespace string) {
		go func() {
			if err := s.Do(ctx, 1, ofNamespace(namespace, namespace, 1000))[0].Err; errors.Is(err, task.ErrOverloaded) {
				refused <- err
			}
		}()
	}
	for range 20 {
		call("storm")
	}
	for range 20 - 4 { // four calls hold at most half
		if err := <-refused; err == nil {
			t.Fatal("a refusal without an error")
		}
	}
	call("neighbour")
	for id := ""; id != "neighbour"; {
		select {
		case id = <-started:
		case err := <-refused:
			t.Fatal(err)
		}
	}
	cancel()
}

func TestNamespaceOfCall(t *testing.T) {
	for want, msg := range map[string]*clusterpb.Call{
		"a":                   commandsOf(ofNamespace("a", "x", 0)),
		task.DefaultNamespace: commandsOf(ofNamespace("", "x", 0)),
		"g":                   {Op: &clusterpb.Call_Get{Get: &clusterpb.GetCall{Namespace: "g"}}},
		"l": {Op: &clusterpb.Call_List{List: &clusterpb.ListCall{
			Query: &fsmpb.ListQuery{Namespace: "l"}}}},
		"": {Op: &clusterpb.Call_Lend{}},
	} {
		if got := namespaceOf(msg); got != want {
			t.Errorf("%T is of %q, not %q", msg.Op, got, want)
		}
	}
}
