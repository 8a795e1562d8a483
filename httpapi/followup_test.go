package httpapi

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

const reported = `{"delay":"5m","queue":"reports","target":{"url":"https://a.example/","headers":{"authorization":"secret"}},` +
	`"labels":{"kind":"dead"},"keep_answer":true,"on_dead":{"payload":{"n": 1}}}`

// A follow-up comes as it was sent, with its own follow-up, and its answer hides credentials.
func TestFollowUpOfATask(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1s","on_dead":`+reported+`,"on_delivered":{}}`).mustStatus(t, 201)
	spec := h.fake.last().GetSchedule().GetSpec()
	f := spec.GetOnDead()
	assert.Equal(t, f.GetDelayMs(), 300_000)
	assert.Equal(t, f.GetKeepAnswer(), true)
	assert.Equal(t, f.GetSpec().GetQueue(), "reports")
	assert.Equal(t, f.GetSpec().GetTarget().GetHeaders()[0].Value, "secret")
	assert.Equal(t, string(f.GetSpec().GetOnDead().GetSpec().GetPayload()), `{"n": 1}`)
	assert.Equal(t, spec.GetOnDelivered() != nil, true, "an empty follow-up is one")

	shown := h.call("GET", "/v1/tasks/a", "").mustStatus(t, 200)
	assert.Equal(t, fmt.Sprint(shown["on_delivered"]), "map[]")
	assert.Equal(t, fmt.Sprint(shown["on_dead"]), "map[delay:5m keep_answer:true labels:map[kind:dead] "+
		"on_dead:map[content_type:application/json payload:map[n:1]] queue:reports "+
		"target:map[headers:map[authorization:***] url:https://a.example/]]")

	h.call("PATCH", "/v1/tasks/a", `{"on_dead":{"queue":"q"},"on_delivered":null}`)
	p := h.fake.last().GetPatch()
	assert.Equal(t, fmt.Sprint(p.Clear), "[on_dead on_delivered]")
	assert.Equal(t, p.GetSet().GetOnDead().GetSpec().GetQueue(), "q")
	assert.Equal(t, p.GetSet().GetOnDelivered() == nil, true)
}

func TestFollowUpsThatAreRefused(t *testing.T) {
	h := newHarness(t)
	for body, field := range map[string]string{
		`{"on_dead":1}`:          "on_dead",
		`{"on_dead":{"id":"b"}}`: "on_dead.id",
		`{"on_dead":{"fire_at":"2030-01-01T00:00:00Z"}}`:                        "on_dead.fire_at",
		`{"on_dead":{"queue":"a b"}}`:                                           "on_dead.queue",
		`{"on_dead":{"delay":"-1s"}}`:                                           "on_dead.delay",
		`{"on_dead":{"target":{"url":"ftp://x/"}}}`:                             "on_dead.target.url",
		`{"on_dead":{"keep_answer":true,"payload":1}}`:                          "on_dead.keep_answer",
		`{"on_dead":{"payload":1,"payload_base64":"AA=="}}`:                     "on_dead.payload_base64",
		`{"on_dead":{"on_delivered":{"on_dead":{"on_dead":{}}}}}`:               "on_dead.on_delivered.on_dead.on_dead",
		`{"keep_answer":true}`:                                                  "keep_answer",
		`{"on_dead":{"target":{"url":"http://x/","headers":{"cookie":"***"}}}}`: "on_dead.target.headers",
	} {
		p := h.call("PUT", "/v1/tasks/a", `{"delay":"1s",`+body[1:]).mustStatus(t, 400)
		assert.Equal(t, fmt.Sprint(p["field"]), field, "%s: %v", body, p["detail"])
	}
}

// A queue's follow-ups stand in its policy, without credentials.
func TestFollowUpOfAQueue(t *testing.T) {
	h := newHarness(t)
	p := h.call("PUT", "/v1/queues/q", `{"on_dead":{"queue":"duty"}}`).mustStatus(t, 201)
	assert.Equal(t, fmt.Sprint(p["on_dead"]), "map[queue:duty]")
	p = h.call("PATCH", "/v1/queues/q", `{"on_dead":{"delay":"1s"},"on_delivered":{}}`).mustStatus(t, 200)
	assert.Equal(t, fmt.Sprint(p["on_dead"], p["on_delivered"]), "map[delay:1s] map[]")
	p = h.call("PATCH", "/v1/queues/q", `{"on_dead":null}`).mustStatus(t, 200)
	assert.Equal(t, fmt.Sprint(p["on_dead"]), "<nil>")
	p = h.call("PUT", "/v1/queues/q", `{"on_dead":`+reported+`}`).mustStatus(t, 400)
	assert.Equal(t, fmt.Sprint(p["field"]), "on_dead.target.headers.authorization")
}

// A caller cannot put a follow-up into a queue that the grants do not reach.
func TestFollowUpsStayWithinTheGrants(t *testing.T) {
	h := newHarness(t, withAccess)
	const caller = "schedule@a queues=q"
	for body, status := range map[string]int{
		`{"delay":"1s","queue":"q","on_dead":{"queue":"q"}}`:                   201,
		`{"delay":"1s","queue":"q","on_dead":{"queue":"other"}}`:               403,
		`{"delay":"1s","queue":"q","on_dead":{"queue":"q","on_delivered":{}}}`: 403,
	} {
		h.as(caller, "PUT", "/v1/namespaces/a/tasks/t", body).mustStatus(t, status)
	}
	h.as(caller, "PATCH", "/v1/namespaces/a/tasks/t", `{"on_dead":{"queue":"other"}}`).mustStatus(t, 403)
	h.as("operate@a queues=q", "PUT", "/v1/namespaces/a/queues/q", `{"on_dead":{"queue":"other"}}`).mustStatus(t, 403)
	h.as("operate@a queues=q", "PATCH", "/v1/namespaces/a/queues/q", `{"on_dead":{"queue":"other"}}`).mustStatus(t, 403)
	h.as("operate@a queues=q", "PATCH", "/v1/namespaces/a/queues/q", `{"on_dead":{"queue":"q"}}`).mustStatus(t, 200)
	assert.Equal(t, h.fake.last().GetSchedule().GetSpec().GetOnDead() != (*fsmpb.FollowUp)(nil), true)
}
