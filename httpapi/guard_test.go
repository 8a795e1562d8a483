package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	orders = "schedule@a queues=orders*" // a caller limited to some queues
	mine   = "schedule@a ids=mine-*"     // a caller limited to some ids
	both   = "schedule@a queues=orders ids=mine-*"
)

// newLimited is a harness with the tasks mine and mine-1 in the queue orders, and other and mine-2 in the queue mail.
func newLimited(t *testing.T) *harness {
	h := newHarness(t, withAccess)
	for _, stored := range [][2]string{{"mine", "orders"}, {"mine-1", "orders"}, {"other", "mail"}, {"mine-2", "mail"}} {
		body := fmt.Sprintf(`{"delay":"1h","queue":%q,"payload":"of %s"}`, stored[1], stored[0])
		h.as("admin@a", "PUT", "/v1/tasks/"+stored[0], body).mustStatus(t, 201)
	}
	h.fake.seen = nil
	return h
}

// TestLimitedReads checks that reads and lists stay within the caller's queues and ids.
func TestLimitedReads(t *testing.T) {
	h := newLimited(t)
	for _, c := range []struct {
		caller, path string
		status       int
		field        string
	}{
		{orders, "/v1/tasks/mine", 200, ""}, {orders, "/v1/tasks/other", 404, ""}, {mine, "/v1/tasks/mine-2", 200, ""},
		{mine, "/v1/tasks/mine", 404, ""}, {both, "/v1/tasks/mine-1", 200, ""}, {both, "/v1/tasks/mine-2", 404, ""},
		{orders, "/v1/tasks", 403, "queue"}, {orders, "/v1/tasks?queue=orders", 200, ""},
		{orders, "/v1/tasks?queue=mail", 403, "queue"}, {orders, "/v1/tasks?queue=orders-eu&prefix=x", 200, ""},
		{mine, "/v1/tasks", 403, "prefix"}, {mine, "/v1/tasks?prefix=mine-", 200, ""},
		{mine, "/v1/tasks?prefix=mine", 403, "prefix"}, {mine, "/v1/tasks?queue=mail&prefix=mine-2", 200, ""},
		{both, "/v1/tasks?queue=orders", 403, "prefix"}, {both, "/v1/tasks?queue=orders&prefix=mine-", 200, ""},
		{both, "/v1/tasks?prefix=mine-", 403, "queue"},
		{"read@a ids=mine", "/v1/tasks?prefix=mine", 403, "prefix"}, // the list would show mine-1
		{orders, "/v1/queues", 403, "prefix"}, {orders, "/v1/queues?prefix=orders", 200, ""},
		{orders, "/v1/queues/orders", 200, ""}, {orders, "/v1/queues/mail", 403, "queue"},
		{orders, "/v1/queues/none", 403, "queue"}, {mine, "/v1/queues/orders", 403, "queue"},
		{mine, "/v1/queues?prefix=orders", 403, "prefix"},
	} {
		a := h.as(c.caller, "GET", c.path, "")
		if c.status == 200 {
			a.mustStatus(t, 200)
			continue
		}
		a.mustProblem(t, c.status, c.field)
	}
	outside := h.as(orders, "GET", "/v1/tasks/other", "")
	if none := h.as(orders, "GET", "/v1/tasks/none", ""); outside.text != none.text {
		t.Errorf("outside: %s, none: %s", outside.text, none.text)
	}
}

// TestLimitedChanges checks each change of a task inside and outside the caller's queues and ids. A task outside is as
// one that does not exist, except that its id cannot be taken.
func TestLimitedChanges(t *testing.T) {
	for _, c := range []struct {
		caller, method, path, body string
		status                     int
		field                      string
	}{
		{orders, "PUT", "/v1/tasks/new", `{"delay":"1h","queue":"orders-eu"}`, 201, ""},
		{orders, "PUT", "/v1/tasks/new", `{"delay":"1h","queue":"mail"}`, 403, "queue"},
		{orders, "PUT", "/v1/tasks/new", `{"delay":"1h"}`, 403, "queue"},
		{orders, "PUT", "/v1/tasks/mine", `{"delay":"1h","queue":"orders"}`, 200, ""},
		{orders, "PUT", "/v1/tasks/other", `{"delay":"1h","queue":"orders"}`, 403, "id"},
		{orders, "POST", "/v1/tasks", `{"delay":"1h","queue":"orders"}`, 201, ""},
		{orders, "POST", "/v1/tasks", `{"delay":"1h","queue":"mail"}`, 403, "queue"},
		{mine, "POST", "/v1/tasks", `{"delay":"1h","queue":"mail"}`, 403, "queue"},
		{mine, "PUT", "/v1/tasks/mine-9", `{"delay":"1h","queue":"any"}`, 201, ""},
		{mine, "PUT", "/v1/tasks/other", `{"delay":"1h","queue":"any"}`, 403, "queue"},
		{orders, "PATCH", "/v1/tasks/mine", `{"delay":"1h"}`, 200, ""},
		{orders, "PATCH", "/v1/tasks/other", `{"delay":"1h"}`, 404, ""},
		{orders, "DELETE", "/v1/tasks/mine", "", 200, ""},
		{orders, "DELETE", "/v1/tasks/other", "", 404, ""},
		{mine, "DELETE", "/v1/tasks/mine-2", "", 200, ""},
		{mine, "DELETE", "/v1/tasks/other", "", 404, ""},
		{both, "DELETE", "/v1/tasks/mine-2", "", 404, ""},
		{orders, "POST", "/v1/tasks/mine/touch", `{"delay":"1h"}`, 200, ""},
		{orders, "POST", "/v1/tasks/other/touch", `{"delay":"1h"}`, 404, ""},
		{orders, "POST", "/v1/tasks/other/touch", `{"or_schedule":{"delay":"1h","queue":"orders"}}`, 404, ""},
		{orders, "POST", "/v1/tasks/new/touch", `{"or_schedule":{"delay":"1h","queue":"orders"}}`, 201, ""},
		{orders, "POST", "/v1/tasks/new/touch", `{"or_schedule":{"delay":"1h","queue":"mail"}}`, 403, "queue"},
		{orders, "POST", "/v1/tasks/other/fire", "", 404, ""},
	} {
		h := newLimited(t)
		before := proto.CloneOf(h.fake.tasks["a/other"])
		a := h.as(c.caller, c.method, c.path, c.body)
		if c.status < 300 {
			a.mustStatus(t, c.status)
		} else {
			a.mustProblem(t, c.status, c.field)
			assert.Equal(t, len(h.fake.seen), 0, "%s: %s %s sends a command", c.caller, c.method, c.path)
		}
		if c.status == 404 {
			missing := strings.NewReplacer("other", "mine-none", "mine-2", "mine-none").Replace(c.path)
			none := h.as(c.caller, c.method, missing, c.body)
			if !strings.Contains(c.body, "or_schedule") && none.text != a.text {
				t.Errorf("%s: %s %s: outside: %s, none: %s", c.caller, c.method, c.path, a.text, none.text)
			}
		}
		if !proto.Equal(before, h.fake.tasks["a/other"]) {
			t.Errorf("%s: %s %s changes another queue's task", c.caller, c.method, c.path)
		}
	}
}

// TestLimitedConditions checks that conditions of a limited caller mean what they mean for others, and show nothing of
// another queue's task.
func TestLimitedConditions(t *testing.T) {
	body := `{"delay":"1h","queue":"orders"}`
	for _, c := range []struct {
		id, name, value string
		status          int
	}{
		{"mine", "If-Match", "*", 200}, {"mine", "If-Match", `"1"`, 200}, {"mine", "If-Match", `"7", "1"`, 200},
		{"mine", "If-Match", `"7"`, 412}, {"mine", "If-None-Match", "*", 412}, {"new", "If-None-Match", "*", 201},
		{"new", "If-Match", "*", 412}, {"new", "If-Match", `"1"`, 412}, {"other", "If-None-Match", "*", 403},
		{"other", "If-Match", "*", 403},
	} {
		a := newLimited(t).as(orders, "PUT", "/v1/tasks/"+c.id, body, c.name, c.value)
		if a.StatusCode != c.status || strings.Contains(a.text, "of other") {
			t.Errorf("%s with %s: %s: %d %s", c.id, c.name, c.value, a.StatusCode, a.text)
		}
		if c.value == "*" && c.id == "mine" && c.status == 412 && !strings.Contains(a.text, `"payload":"of mine"`) {
			t.Errorf("the answer lacks the task: %s", a.text)
		}
	}
}

// race makes every command of the first rounds meet a task that has changed since it was read.
func race(h *harness, rounds int, change func()) {
	h.fake.do = func(context.Context, []*fsmpb.Command) []task.Reply {
		if rounds > 0 {
			rounds--
			h.fake.mu.Lock()
			defer h.fake.mu.Unlock()
			change()
		}
		return nil
	}
}

// TestLimitedRaces checks changes of a task that happen between the guard's read and its command.
func TestLimitedRaces(t *testing.T) {
	bump := func(h *harness) func() { return func() { h.fake.tasks["a/mine"].Revision += 100 } }
	h := newLimited(t)
	race(h, guardTries-1, bump(h))
	h.as(orders, "DELETE", "/v1/tasks/mine", "").mustStatus(t, 200)
	h = newLimited(t)
	race(h, guardTries, bump(h))
	a := h.as(orders, "DELETE", "/v1/tasks/mine", "")
	if a.mustProblem(t, 429, ""); a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	h = newLimited(t)
	race(h, 1, func() { h.fake.tasks["a/mine"].Spec.Queue = "mail"; h.fake.tasks["a/mine"].Revision += 100 })
	h.as(orders, "DELETE", "/v1/tasks/mine", "").mustProblem(t, 404, "")
	assert.Equal(t, h.fake.tasks["a/mine"].State, fsmpb.State_STATE_SCHEDULED, "the task of another queue")
	h = newLimited(t) // another caller takes the id for another queue
	race(h, 1, func() { h.fake.tasks["a/new"] = h.fake.tasks["a/other"] })
	h.as(orders, "PUT", "/v1/tasks/new", `{"delay":"1h","queue":"orders"}`, "If-None-Match", "*").mustProblem(t, 403, "id")
	h = newLimited(t) // the caller's own condition fails, and the task that is there then is another queue's
	race(h, 1, func() { h.fake.tasks["a/mine"].Spec.Queue = "mail" })
	a = h.as(orders, "PUT", "/v1/tasks/mine", `{"delay":"1h","queue":"orders"}`, "If-None-Match", "*")
	if a.mustProblem(t, 404, ""); strings.Contains(a.text, "of mine") {
		t.Errorf("the answer shows the task: %s", a.text)
	}
}

// TestLimitedRepeats checks that a repeated call of a limited caller gets its first answer.
func TestLimitedRepeats(t *testing.T) {
	h := newLimited(t)
	first := h.as(orders, "PUT", "/v1/tasks/new", `{"delay":"1h","queue":"orders"}`, keyHeader, "k")
	first.mustStatus(t, 201)
	for range 2 {
		a := h.as(orders, "PUT", "/v1/tasks/new", `{"delay":"1h","queue":"orders"}`, keyHeader, "k")
		if a.text != first.text || a.StatusCode != 201 {
			t.Errorf("%d %s, first %s", a.StatusCode, a.text, first.text)
		}
	}
	h.as(orders, "PUT", "/v1/tasks/new", `{"delay":"2h","queue":"orders"}`, keyHeader, "k").mustProblem(t, 422, keyHeader)
}

// TestLimitedBatch checks that each line is judged by itself, and that lines about one id build on each other.
func TestLimitedBatch(t *testing.T) {
	h := newLimited(t)
	a := h.as(orders, "POST", "/v1/batch", strings.Join([]string{
		`{"op":"schedule","id":"new","delay":"1h","queue":"orders"}`,
		`{"op":"schedule","id":"new2","delay":"1h","queue":"mail"}`,
		`{"op":"schedule","id":"other","delay":"1h","queue":"orders"}`,
		`{"op":"cancel","id":"other"}`,
		`{"op":"cancel","id":"none"}`,
		`{"op":"schedule","id":"new","delay":"2h","queue":"orders","if_match":"*"}`,
		`{"op":"touch","id":"new","delay":"3h"}`,
		`{"op":"cancel","id":"new"}`,
		`{"op":"cancel","id":"mine"}`,
		`{"op":"patch","id":"mine-2","delay":"1s"}`,
	}, "\n"), "Content-Type", ndjsonType)
	var got []string
	for line := range strings.Lines(a.text) {
		id, rest, _ := strings.Cut(line, `,"status":`)
		got = append(got, strings.TrimPrefix(id, `{"id":`)+" "+rest[:3])
	}
	want := `["new" 201 "new2" 403 "other" 403 "other" 404 "none" 404 "new" 200 "new" 200 "new" 200 "mine" 200 ` +
		`"mine-2" 404]`
	if fmt.Sprint(got) != want {
		t.Errorf("%v\nwant %s\n%s", got, want, a.text)
	}
	if state := h.fake.tasks["a/new"].State; state != fsmpb.State_STATE_CANCELLED {
		t.Errorf("the task is %v after its last line", state)
	}
}

// TestLinesOutsideTakeTime checks that after 1,000 lines of a batch that the caller's grants do not reach, each further
// such line takes a millisecond. Other lines take no time.
func TestLinesOutsideTakeTime(t *testing.T) {
	const foreign, unknown = `{"op":"schedule","id":"x","delay":"1h","queue":"mail"}`, `{"op":"cancel","id":"none"}`
	for _, c := range []struct {
		caller, line string
		lines        int
		want         time.Duration
	}{
		{orders, foreign, 1000, 0}, {orders, foreign, 1500, 500 * time.Millisecond},
		{mine, unknown, 1500, 500 * time.Millisecond}, // 404, as for a task that does not exist
		{"schedule@a", unknown, 1500, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newLimited(t)
			began := time.Now()
			a := h.as(c.caller, "POST", "/v1/batch", strings.Repeat(c.line+"\n", c.lines), "Content-Type", ndjsonType)
			took := time.Since(began) // of the bubble's clock
			if n := strings.Count(a.text, "\n"); n != c.lines || took < c.want || took > c.want+100*time.Millisecond {
				t.Errorf("%s: %d lines of %s are answered by %d after %v", c.caller, c.lines, c.line, n, took)
			}
		})
	}
}

// TestUnlimitedCallersAreNotGuarded checks that callers without limits cost no read.
func TestUnlimitedCallersAreNotGuarded(t *testing.T) {
	h := newLimited(t)
	h.as("schedule@a", "DELETE", "/v1/tasks/mine", "").mustStatus(t, 200)
	if c := h.fake.last(); c.Condition != nil {
		t.Errorf("the command has the condition %v", c.Condition)
	}
	h.as(mine, "DELETE", "/v1/tasks/mine-2", "").mustStatus(t, 200)
	if c := h.fake.last(); c.Condition != nil {
		t.Errorf("a caller who reaches the id in every queue sends the condition %v", c.Condition)
	}
}
