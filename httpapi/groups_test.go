package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestGroupOfATask(t *testing.T) {
	h := newHarness(t)
	answer := h.call("PUT", "/v1/tasks/a", `{"delay":"1s","group":"acme","priority":1}`).mustStatus(t, 201)
	if answer["group"] != "acme" || fmt.Sprint(answer["priority"]) != "1" {
		t.Errorf("%v", answer)
	}
	if s := h.fake.last().GetSchedule().GetSpec(); s.GetGroup() != "acme" || s.GetPriority() != 1 {
		t.Errorf("%v", s)
	}
	answer = h.call("PUT", "/v1/tasks/b", `{"delay":"1s","priority":3}`).mustStatus(t, 201)
	if s := h.fake.last().GetSchedule().GetSpec(); s.GetPriority() != 0 || answer["priority"] != nil {
		t.Errorf("the default priority is kept: %v, %v", s, answer)
	}
	h.call("PATCH", "/v1/tasks/a", `{"group":"other","priority":5}`)
	if p := h.fake.last().GetPatch().GetSet(); p.GetGroup() != "other" || p.GetPriority() != 5 {
		t.Errorf("%v", p)
	}
	h.call("PATCH", "/v1/tasks/a", `{"group":null,"priority":null}`)
	if p := h.fake.last().GetPatch(); fmt.Sprint(p.Clear) != "[group priority]" || !proto.Equal(p.Set, &fsmpb.Spec{}) {
		t.Errorf("%v", p)
	}
}

// A group and a priority are parts of the call that an idempotency key stands for.
func TestGroupIsOfTheCall(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1s"}`).mustStatus(t, 201)
	calls := []string{"", `,"group":"g"`, `,"group":"h"`, `,"priority":2`, `,"group":"g","priority":2`}
	for i, first := range calls {
		for j, second := range calls {
			key := fmt.Sprint("k", i, "-", j)
			h.call("PUT", "/v1/tasks/a", `{"delay":"1s"`+first+`}`, "Idempotency-Key", key)
			want := 422
			if i == j {
				want = 200
			}
			h.call("PUT", "/v1/tasks/a", `{"delay":"1s"`+second+`}`, "Idempotency-Key", key).mustStatus(t, want)
		}
	}
}

func TestGroupsOfAQueue(t *testing.T) {
	h := newHarness(t)
	q := h.call("PUT", "/v1/queues/q", `{"group_in_flight":3,"fair":true,"group_weights":{"b":2,"acme":100}}`).
		mustStatus(t, 201)
	if got := fmt.Sprint(q["group_in_flight"], q["fifo"], q["fair"], q["group_weights"]); got != "3 <nil> true map[acme:100 b:2]" {
		t.Errorf("%s", got)
	}
	q = h.call("PATCH", "/v1/queues/q", `{"group_weights":{"b":null,"c":4}}`).mustStatus(t, 200)
	assert.Equal(t, fmt.Sprint(q["group_weights"]), "map[acme:100 c:4]")
	q = h.call("PATCH", "/v1/queues/q", `{"group_weights":null,"group_in_flight":null,"fair":null,"fifo":true}`).
		mustStatus(t, 200)
	assert.Equal(t, fmt.Sprint(q["group_in_flight"], q["fifo"], q["fair"], q["group_weights"]), "<nil> true <nil> <nil>")
}

func TestWrongGroups(t *testing.T) {
	h := newHarness(t)
	var many []string
	for i := range 1001 {
		many = append(many, fmt.Sprintf(`"g%d":1`, i))
	}
	for _, c := range []struct{ path, body, field string }{
		{"/v1/tasks/a", `{"delay":"1s","group":""}`, "group"},
		{"/v1/tasks/a", `{"delay":"1s","group":"a b"}`, "group"},
		{"/v1/tasks/a", `{"delay":"1s","group":"` + strings.Repeat("g", 201) + `"}`, "group"},
		{"/v1/tasks/a", `{"delay":"1s","group":7}`, "group"},
		{"/v1/tasks/a", `{"delay":"1s","priority":0}`, "priority"},
		{"/v1/tasks/a", `{"delay":"1s","priority":6}`, "priority"},
		{"/v1/tasks/a", `{"delay":"1s","priority":1.5}`, "priority"},
		{"/v1/tasks/a", `{"delay":"1s","fifo":true}`, "fifo"},
		{"/v1/queues/q", `{"group_in_flight":0}`, "group_in_flight"},
		{"/v1/queues/q", `{"group_in_flight":1000001}`, "group_in_flight"},
		{"/v1/queues/q", `{"group_in_flight":2,"fifo":true}`, "group_in_flight"},
		{"/v1/queues/q", `{"fifo":"yes"}`, "fifo"},
		{"/v1/queues/q", `{"group_weights":{"a":1}}`, "group_weights"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a":0}}`, "group_weights.a"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a":101}}`, "group_weights.a"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a":null}}`, "group_weights.a"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a":1,"a":2}}`, "group_weights.a"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a b":1}}`, "group_weights.a b"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{` + strings.Join(many, ",") + `}}`, "group_weights"},
		{"/v1/queues/q", `{"priority":1}`, "priority"},
	} {
		p := h.call("PUT", c.path, c.body).mustStatus(t, 400)
		assert.Equal[any](t, p["field"], c.field, "%.60s: %v", c.body, p)
	}
	h.call("PUT", "/v1/queues/q", `{"group_in_flight":1,"fifo":true}`).mustStatus(t, 201)
}
