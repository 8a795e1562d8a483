package forward

import (
	"context"
	"testing"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/tracing"
)

// The trace of a caller reaches the node that answers. A call without one has none there.
func TestTraceCrossesNodes(t *testing.T) {
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var arrived string
	s := serve(t, local{func(ctx context.Context, _ uint32, _ string) task.Reply {
		arrived = tracing.Traceparent(ctx)
		return task.Reply{}
	}})
	for _, sent := range []string{caller, ""} {
		s.Do(tracing.Remote(t.Context(), sent), 1, command("a"))
		if arrived != sent {
			t.Errorf("%q arrived in place of %q", arrived, sent)
		}
	}
}
