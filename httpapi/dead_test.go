package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// die creates dead letters.
func (h *harness) die(queue string, ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		h.call("PUT", "/v1/tasks/"+id, `{"delay":"0s","queue":"`+queue+`"}`)
		h.fake.set(id, fsmpb.State_STATE_DEAD, 10)
	}
}

func (a answer) count(t testing.TB) int {
	t.Helper()
	return int(a.mustStatus(t, 200)["count"].(float64))
}

func TestReplayAndDrop(t *testing.T) {
	h := newHarness(t)
	h.die("q", "a1", "a2", "b1", "b2")
	h.die("other", "c")
	assert.Equal(t, h.call("POST", "/v1/queues/q/dead/replay?prefix=a", "").count(t), 2, "replayed")
	for _, q := range h.fake.queries {
		if q.Queue != "q" || len(q.States) != 1 || q.States[0] != fsmpb.State_STATE_DEAD || q.IncludePayload {
			t.Errorf("asked %v", q)
		}
	}
	if h.state("a1") != fsmpb.State_STATE_READY || h.state("b1") != fsmpb.State_STATE_DEAD {
		t.Error("not those that were asked for")
	}
	if n := h.call("DELETE", "/v1/queues/q/dead?id=b1&id=a1&id=c&id=none", "").count(t); n != 1 {
		t.Errorf("%d dropped: only b1 is a dead letter of the queue", n)
	}
	assert.Equal(t, h.call("DELETE", "/v1/queues/q/dead?limit=1", "", keyHeader, "k").count(t), 1, "dropped")
	assert.Equal(t, h.call("DELETE", "/v1/queues/q/dead", "").count(t), 0, "dropped")
	assert.Equal(t, h.state("c"), fsmpb.State_STATE_DEAD, "another queue's")
}

func TestReplayGoesThroughAllPages(t *testing.T) {
	h := newHarness(t)
	var ids []string
	for i := range 2500 {
		ids = append(ids, fmt.Sprintf("t%d", i))
	}
	h.die("q", ids...)
	assert.Equal(t, h.call("POST", "/v1/queues/q/dead/replay?limit=1500", "{}").count(t), 1500, "replayed")
	assert.Equal(t, h.call("POST", "/v1/queues/q/dead/replay", "").count(t), 1000, "replayed")
}

// TestReplayOfAChangedTask checks that a task that changes between the listing and the command stays as it is.
func TestReplayOfAChangedTask(t *testing.T) {
	h := newHarness(t)
	h.die("q", "a", "b")
	h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
		h.fake.mu.Lock()
		defer h.fake.mu.Unlock()
		h.fake.tasks["a"].Revision = 99
		return nil
	}
	if n := h.call("DELETE", "/v1/queues/q/dead", "").count(t); n != 1 || h.state("a") != fsmpb.State_STATE_DEAD {
		t.Errorf("%d dropped", n)
	}
}

func TestBadDeadFilters(t *testing.T) {
	h := newHarness(t)
	for query, field := range map[string]string{
		"state=dead": "state", "queue=q": "queue", "cursor=x": "cursor", "include=payload": "include", "colour=red": "colour",
		"limit=0": "limit", "limit=x": "limit", "limit=1&limit=2": "limit", "label=x": "label", "prefix=-": "prefix",
		"due_before=soon": "due_before", "due_after=soon": "due_after", "id=": "id", "id=a/b": "id", "id=a&prefix=a": "prefix",
		"id=a" + strings.Repeat("&id=a", 100): "id",
	} {
		h.call("POST", "/v1/queues/q/dead/replay?"+query, "").mustProblem(t, 400, field)
		h.call("DELETE", "/v1/queues/q/dead?"+query, "").mustProblem(t, 400, field)
	}
	h.call("POST", "/v1/queues/q/dead/replay", `{"id":"a"}`).mustProblem(t, 400, "id")
}

func TestReplayThatBreaksOff(t *testing.T) {
	for _, c := range []struct {
		err       error
		status    int
		committed any
	}{{task.ErrNotProposed, 503, "no"}, {task.ErrUnknown, 504, "unknown"}} {
		h := newHarness(t)
		var ids []string
		for i := range 1500 {
			ids = append(ids, fmt.Sprintf("t%d", i))
		}
		h.die("q", ids...)
		fail := 1
		h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
			if fail--; fail > 0 {
				return nil
			}
			replies := make([]task.Reply, len(cmds))
			for i := range replies {
				replies[i].Err = c.err
			}
			return replies
		}
		p := h.call("POST", "/v1/queues/q/dead/replay", "").mustProblem(t, c.status, "")
		if p["committed"] != c.committed || p["count"] != 0.0 {
			t.Errorf("%v", p)
		}
		fail = 2
		p = h.call("POST", "/v1/queues/q/dead/replay", "").mustProblem(t, 504, "")
		if p["committed"] != "unknown" || p["count"] != 1000.0 {
			t.Errorf("%v", p)
		}
		h.fake.readErr = c.err
		h.call("DELETE", "/v1/queues/q/dead", "").mustProblem(t, 503, "")
		h.call("DELETE", "/v1/queues/q/dead?id=t1", "").mustProblem(t, 503, "")
	}
}

func TestReplayWaitsOutOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.die("q", "a", "b")
		full := 5
		h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
			if full--; full < 0 {
				return nil
			}
			return []task.Reply{{Err: task.ErrOverloaded}, {Err: task.ErrOverloaded}}[:len(cmds)]
		}
		assert.Equal(t, h.call("POST", "/v1/queues/q/dead/replay", "").count(t), 2, "replayed")
	})
}
