package calls

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/assert"
)

func ofNamespace(namespace, id string, payload int) []*fsmpb.Command {
	return []*fsmpb.Command{{Namespace: namespace, Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{Payload: make([]byte, payload)}}}}}
}

// TestNamespacesTakeTurns checks that a call waits for at most one call of another namespace, however large those are,
// and that the calls of each namespace keep their order.
func TestNamespacesTakeTurns(t *testing.T) {
	c := &Client{outstanding: admission.NewPool(1 << 40), wake: make(chan struct{}, 1)}
	add := func(namespace string, size int) *pending {
		k := &pending{namespace: namespace, size: size, msg: &clusterpb.Call{}, done: make(chan struct{})}
		_, err := c.enqueue(k)
		assert.NoError(t, err)
		return k
	}
	for range 100 {
		add("storm", 10_000)
	}
	add("neighbour", 0)
	gone := add("neighbour", 0)
	for range 2 {
		add("neighbour", 5000)
	}
	lonely := add("lonely", 1)
	for _, k := range []*pending{gone, lonely} {
		c.abandon(k, context.Canceled)
		<-k.done
	}
	var order []string
	for range 7 {
		k := c.next()
		order = append(order, fmt.Sprint(k.namespace, k.msg.Number))
	}
	want := []string{"storm1", "neighbour101", "neighbour103", "neighbour104", "storm2", "storm3", "storm4"}
	assert.EqualSlices(t, order, want)
}

// TestOneNamespaceLocksNoOtherOut checks that a namespace whose calls stay without an answer leaves room for others.
func TestOneNamespaceLocksNoOtherOut(t *testing.T) {
	started := make(chan string, 100)
	s := serve(t, begun(started), func(s *served) { s.bound = 10_000 })
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
	for want, request := range map[string]proto.Message{
		"a":                   &clusterpb.Commands{Commands: ofNamespace("a", "x", 0)},
		task.DefaultNamespace: &clusterpb.Commands{Commands: ofNamespace("", "x", 0)},
		"g":                   &clusterpb.GetCall{Namespace: "g"},
		"l":                   &clusterpb.ListCall{Query: &fsmpb.ListQuery{Namespace: "l"}},
		"":                    &clusterpb.LendCall{Namespace: "n"},
	} {
		assert.Equal(t, namespaceOf(request), want, "%T is of", request)
	}
}
