package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/httpapi/apitest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// The names in the namespace of the neighbour have words that no other name has. The decoys have the same form, and
// exist nowhere. A caller must be told the same about both.
const (
	neighbour, nowhere = "zebra", "okapi"
	unspoken           = "lynx" // in labels, payloads, errors and policies of the neighbour; no caller ever says it
)

// sampleBodies are the bodies of calls that the contract takes. Other calls have none.
var sampleBodies = map[string]string{
	"PUT /v1/tasks/{id}": `{"delay":"1h"}`, "PATCH /v1/tasks/{id}": `{"delay":"2h"}`, "POST /v1/tasks": `{"delay":"1h"}`,
	"POST /v1/tasks/{id}/touch": `{"delay":"2h"}`, "PUT /v1/queues/{queue}": `{"max_in_flight":3}`,
	"PATCH /v1/queues/{queue}": `{"max_in_flight":4}`, "POST /v1/queues/{queue}/lease": `{"max":9,"lease":"1s"}`,
	"POST /v1/queues/{queue}/settle": `{"ack":["RECEIPT"],"release":["RECEIPT"]}`,
	"POST /v1/queues/{queue}/stream": `{"credit":9}`,
	"POST /v1/batch": `{"op":"schedule","id":"NAME-1","delay":"1h"}
{"op":"touch","id":"NAME-2","delay":"1h"}
{"op":"fire","id":"NAME-3"}
{"op":"cancel","id":"NAME-4"}
{"op":"schedule","id":"NAME-5","delay":"1h","if_none_match":"*","key":"NAME-key"}`,
	"POST /v1/keys":             `{"name":"n","grants":[{"role":"read","namespace":"NAME"}]}`,
	"POST /v1/keys/{id}/rotate": `{"overlap":"1h"}`, "PUT /v1/namespaces/{ns}": `{"weight":2}`,
	"PUT /v1/cluster": `{"replication":3}`, "POST /v1/shards/move": `{"slots":"1-2","to":2}`,
	"PUT /v1/schedules/{id}": `{"repeat":{"every":"1h"}}`, "PATCH /v1/schedules/{id}": `{"note":"NAME"}`,
	"POST /v1/schedules/{id}/backfill": `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`,
	"GET /v1/tasks":                    "", "GET /v1/queues": "", "GET /v1/schedules": "",
}

// sampleQueries are the queries of lists, beside none. CURSOR is a cursor that the neighbour's list has answered, or one
// that no list has.
var sampleQueries = map[string][]string{
	"GET /v1/tasks": {"?prefix=NAME", "?queue=NAME-q", "?label=NAME:NAME", "?state=dead&include=payload", "?limit=1",
		"?limit=1&cursor=CURSOR", "?cursor=CURSOR"},
	"GET /v1/schedules": {"?prefix=NAME", "?queue=NAME-q", "?label=NAME:NAME", "?limit=1", "?cursor=CURSOR",
		"?include=payload"},
	"GET /v1/schedules/{id}/occurrences": {"?next=3&last=3"},
	"GET /v1/queues":                     {"?prefix=NAME", "?limit=1", "?cursor=CURSOR"},
	"DELETE /v1/queues/{queue}/dead":     {"?id=NAME-1", "?state=dead"},
	"GET /v1/tasks/{id}":                 {"?consistency=stale"},
	"GET /v1/events": {"?since=2h&follow=false", "?since=2h&follow=false&queue=NAME-q", "?since=2h&follow=false&prefix=NAME",
		"?since=2h&follow=false&after=CURSOR"},
}

// varying matches the parts that differ between two calls of the same meaning: counters, instants and made names.
var varying = regexp.MustCompile(`"(revision|shard|fence|left|took)":\d+|"retry_after":\d+|\d{4}-\d\d-\d\dT[0-9:.]+Z|` +
	`msg_\w+|\bt-[a-z0-9]+|bfy_\w+|"id":"[a-z2-7]{10}"|keys/[a-z2-7]{10}|"receipt":"[^"]+"|op-[0-9a-f]{16}|` +
	`Etag:\[[^]]*\]|Content-Length:\[\d+\]|Date:\[[^]]*\]|Retry-After:\[\d+\]|Belfry-[A-Z][a-z]+:\[[^]]*\]`)

// neighbours are two namespaces of a cluster, and the keys of a caller of the first.
type neighbours struct {
	*guarded
	document string
	keys     map[string]string // role → file
	cursor   string            // of the neighbour's list of tasks
	receipt  string            // of a task that a consumer of the neighbour holds
	strange  string            // id of a key of the neighbour
	deleted  string            // id of the operation that deletes a namespace of the operator
}

// TestNoSignOfANeighbour makes every call of the contract at every node as a caller of one namespace, about things of
// another one and about things that do not exist. Both are answered alike, and nothing of the other namespace shows or
// changes.
func TestNoSignOfANeighbour(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	n := newNeighbours(t)
	before := n.state()
	api, err := apitest.Load([]byte(n.document))
	assert.NoError(t, err)
	calls := 0
	for _, route := range api.Operations() {
		queries := sampleQueries[route]
		if route != "GET /v1/events" { // which without a query goes on for ever
			queries = append(queries, "")
		}
		for _, query := range queries {
			for role := range n.keys {
				calls += n.compare(role, route, query, calls)
			}
		}
	}
	if after := n.state(); after != before {
		t.Errorf("the neighbour was\n%s\nand is\n%s", before, after)
	}
	if calls < 1000 {
		t.Errorf("%d calls", calls)
	}
}

func newNeighbours(t *testing.T) *neighbours {
	t.Helper()
	n := &neighbours{guarded: newGuarded(t), keys: map[string]string{}}
	_, n.document = request(t, "GET", n.urls[0]+"/openapi.yaml")
	for _, name := range []string{"alpha", neighbour, neighbour + "-old"} {
		n.must(0, n.admin, "namespace put "+name)
	}
	for _, role := range []string{"read", "schedule", "consume", "operate", "admin"} {
		n.keys[role] = n.key(role, n.must(0, n.admin, "key create "+role+" --role "+role+" --namespace alpha"))
		n.everywhere(n.keys[role], "whoami", nil)
	}
	n.fill()
	return n
}

// fill puts a task in each state into the namespace of the neighbour, beside a policy, a key and an operation.
func (n *neighbours) fill() {
	in := "/v1/namespaces/" + neighbour
	n.call(n.admin, 0, 201, "PUT", in+"/queues/"+neighbour+"-q", `{"max_in_flight":7,"paused":true,"signing":{"secrets":["whsec_`+
		`MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"]},"target":{"url":"http://`+unspoken+`.example/","headers":{"X-Own":"`+unspoken+`"}}}`)
	n.call(n.admin, 0, 201, "PUT", in+"/queues/"+neighbour+"-paused", `{"paused":true}`)
	for i, more := range []string{
		`"delay":"1000h","queue":"` + neighbour + `-q"`, `"delay":"0s","queue":"` + neighbour + `-paused"`, `"delay":"0s","queue":"` + neighbour + `-lease"`,
		`"delay":"0s","queue":"` + neighbour + `-dead","retry":{"max_attempts":1}`, `"delay":"900h"`, `"delay":"800h"`,
	} {
		id := fmt.Sprint(neighbour, "-", i+1)
		n.call(n.admin, 0, 201, "PUT", in+"/tasks/"+id, fmt.Sprintf(`{%s,"payload":"%s","labels":{"%s":"%s"}}`,
			more, unspoken, neighbour, neighbour), "Idempotency-Key", neighbour+"-key")
	}
	for i := range 6 {
		n.call(n.admin, 0, 201, "PUT", fmt.Sprint(in, "/schedules/", neighbour, "-", i+1), `{"repeat":{"every":"1000h"},`+
			`"note":"`+unspoken+`","task":{"payload":"`+unspoken+`","labels":{"`+neighbour+`":"`+neighbour+`"}}}`)
	}
	n.call(n.admin, 0, 200, "DELETE", in+"/tasks/"+neighbour+"-6", "")
	n.dead(n.lease(neighbour + "-dead"))
	n.receipt = n.lease(neighbour + "-lease")
	var listed struct {
		Cursor string `json:"next_cursor"`
	}
	n.decode(n.call(n.admin, 0, 200, "GET", in+"/tasks?limit=1", ""), &listed)
	n.cursor = listed.Cursor
	var key, op struct{ ID string }
	n.decode(n.call(n.admin, 0, 201, "POST", "/v1/keys",
		`{"name":"`+unspoken+`","grants":[{"role":"admin","namespace":"`+neighbour+`"}]}`), &key)
	n.decode(n.call(n.admin, 0, 202, "DELETE", in+"-old", ""), &op)
	n.strange, n.deleted = key.ID, op.ID
}

// lease takes the only task of a queue of the neighbour, and returns its receipt.
func (n *neighbours) lease(queue string) string {
	n.t.Helper()
	var leased struct{ Tasks []struct{ Receipt string } }
	n.decode(n.call(n.admin, 0, 200, "POST", "/v1/namespaces/"+neighbour+"/queues/"+queue+"/lease",
		`{"lease":"12h","wait":"20s"}`), &leased)
	assert.MustEqual(n.t, len(leased.Tasks), 1, "leased %+v", leased)
	return leased.Tasks[0].Receipt
}

// dead makes a dead letter of a leased task.
func (n *neighbours) dead(receipt string) {
	n.t.Helper()
	n.call(n.admin, 0, 200, "POST", "/v1/namespaces/"+neighbour+"/queues/"+neighbour+"-dead/settle",
		`{"nack":[{"receipt":"`+receipt+`","reason":"`+unspoken+`"}]}`)
}

// state returns all that an operator sees of the neighbour.
func (n *neighbours) state() string {
	n.t.Helper()
	in, all := "/v1/namespaces/"+neighbour, ""
	for _, path := range []string{"", "/tasks?include=payload&limit=1000", "/schedules?include=payload", "/queues",
		"/queues/" + neighbour + "-q"} {
		all += n.call(n.admin, 0, 200, "GET", in+path, "") + "\n"
	}
	if strings.Count(all, unspoken) < 19 || !strings.Contains(all, `"dead"`) || !strings.Contains(all, `"leased"`) {
		n.t.Fatalf("the neighbour has not what it should: %s", all)
	}
	return regexp.MustCompile(`"oldest[a-z_]*":("[^"]*"|\d+|null)`).ReplaceAllString(all, "")
}

// compare makes a call about the neighbour's things and about decoys, on the short path and below each namespace.
func (n *neighbours) compare(role, route, query string, turn int) (calls int) {
	n.t.Helper()
	prefixes := []string{""}
	if regexp.MustCompile(` /v1/(tasks|queues|schedules|events|batch)`).MatchString(route) {
		prefixes = append(prefixes, "/namespaces/alpha", "/namespaces/NAME")
	}
	for _, prefix := range prefixes {
		var answers [2]string
		for i, name := range []string{neighbour, nowhere} {
			answers[i] = n.about(name, role, route, prefix, query, turn)
			calls++
		}
		if answers[0] != answers[1] {
			n.t.Errorf("%s: %s%s below %q: of the neighbour\n%s\nof what is nowhere\n%s", role, route, query, prefix,
				answers[0], answers[1])
		}
	}
	return calls
}

// about makes a call about things of one name. It returns the answer without the name and the varying parts.
func (n *neighbours) about(name, role, route, prefix, query string, turn int) string {
	n.t.Helper()
	things := map[string][4]string{
		neighbour: {n.cursor, n.receipt, n.strange, n.deleted},
		nowhere:   {"AAAAAAAAAAAAAAAA", "AX9caNmZTwIGb3JkZXJzAnEwdC0w", "aaaaaaaaaa", "op-0123456789abcdef"},
	}[name]
	method, path, _ := strings.Cut(route, " ")
	path = strings.NewReplacer("/operations/{id}", "/operations/"+things[3], "/keys/{id}", "/keys/"+things[2],
		"/nodes/{id}", "/nodes/NAME", "{id}", "NAME-"+fmt.Sprint(turn%6+1), "{queue}", "NAME-q", "{ns}", "NAME", "{shard}", "1").
		Replace(path)
	fillIn := strings.NewReplacer("NAME", name, "CURSOR", url.QueryEscape(things[0]), "RECEIPT", things[1])
	path = strings.Replace(path, "/v1", "/v1"+prefix, 1)
	status, header, body := n.send(n.keys[role], turn%len(n.urls), method, fillIn.Replace(path+query),
		fillIn.Replace(sampleBodies[route]))
	if strings.Contains(body, unspoken) || name == nowhere && strings.Contains(body, neighbour) && !strings.Contains(path, "alpha") {
		n.t.Errorf("%s: %s %s shows the neighbour: %s", role, method, path, body)
	}
	text := varying.ReplaceAllString(fmt.Sprint(status, header, body), "$1")
	for _, thing := range things {
		text = strings.ReplaceAll(text, thing, "THING")
	}
	return strings.ReplaceAll(text, name, "NAME")
}

// call makes a call that has an expected status.
func (n *neighbours) call(key string, node, status int, method, path, body string, header ...string) string {
	n.t.Helper()
	got, _, text := n.send(key, node, method, path, body, header...)
	assert.MustEqual(n.t, got, status, "%s %s %s: %s", method, path, body, text)
	return text
}

func (n *neighbours) decode(text string, into any) {
	n.t.Helper()
	assert.NoError(n.t, json.Unmarshal([]byte(text), into), "%s", text)
}

// streamTime is the time after which a stream's caller leaves.
const streamTime = time.Second

func (n *neighbours) send(key string, node int, method, path, body string, header ...string) (int, http.Header, string) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	streams := strings.HasSuffix(path, "/stream")
	if streams {
		ctx, cancel = context.WithTimeout(n.t.Context(), streamTime)
	}
	defer cancel()
	if streams || strings.HasSuffix(path, "/batch") {
		header = append(header, "Content-Type", "application/x-ndjson")
	}
	resp, text, err := n.ask(ctx, n.text(key), node, method, path, body, header...)
	if resp == nil || err != nil && !streams {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, resp.Header, text
}
