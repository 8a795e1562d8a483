package httpapi

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// world is a cluster whose namespace b is full in one copy and empty in the other. A caller of namespace a must not be
// able to tell them apart.
type world struct {
	*harness
	registry *prometheus.Registry
}

const withNeighbour, withoutNeighbour = true, false

func newWorld(t *testing.T, neighbour bool) world {
	registry := prometheus.NewRegistry()
	w := world{registry: registry}
	w.harness = sampleHarness(t, withAccess, func(c *Config) { c.Gatherer, c.Registerer = registry, registry })
	populate(w.harness, "a", "u", "q2")
	if neighbour {
		populate(w.harness, "b", "t", "q")
		populate(w.harness, "b", "hidden", "hidden-queue")
		w.fake.operations = append(w.fake.operations, view.Operation{ID: "op-hidden", Namespace: "b", State: isRunning})
	}
	w.fake.revision = 1000
	w.server.close() // no lease waits here
	return w
}

// foreignTokens returns a cursor and a receipt of namespace b.
func foreignTokens(t *testing.T) (cursor, receipt string) {
	w := newWorld(t, withNeighbour)
	page := w.as("admin@*", "GET", "/v1/namespaces/b/tasks?limit=1", "").mustStatus(t, 200)
	return page["next_cursor"].(string), string(testKey.append(nil, receiptOf(w.fake.tasks["b/t-firing"])))
}

// TestNoSignOfAnotherNamespace makes every call as callers of namespace a, on paths of a and of b, about names that
// exist in b only, in both or in neither. The answers must not depend on the content of b.
func TestNoSignOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	cursor, receipt := foreignTokens(t)
	var calls [][4]string // caller, route, path, body
	add := func(route, path, body string) {
		for _, caller := range []string{"read@a", "schedule@a", "consume@a", "operate@a", "admin@a", "admin@a queues=q,hidden-queue"} {
			for _, prefix := range []string{"", "/namespaces/a", "/namespaces/b", "/namespaces/none"} {
				calls = append(calls, [4]string{caller, route, "/v1" + prefix + strings.TrimPrefix(path, "/v1"), body})
			}
		}
	}
	for _, e := range newHarness(t).server.endpoints() {
		route := e.method + " " + e.path
		sample := sampleCalls[route]
		for _, name := range []string{"t", "t-dead", "hidden", "nothing"} {
			path := strings.NewReplacer("/v1/tasks/:id", "/v1/tasks/"+name, "/v1/schedules/:id", "/v1/schedules/"+name,
				"op-0", "op-hidden").Replace(e.path)
			add(route, strings.ReplaceAll(samplePaths.Replace(path), "op-0", "op-hidden")+sample.query, sample.body)
			path = strings.ReplaceAll(path, ":queue", "hidden-queue")
			add(route, samplePaths.Replace(path)+sample.query, sample.body)
		}
	}
	for _, list := range []string{"tasks", "schedules", "queues"} {
		for _, query := range []string{"", "?limit=1", "?prefix=hidden", "?cursor=" + url.QueryEscape(cursor)} {
			add("", "/v1/"+list+query, "")
		}
	}
	for _, query := range []string{"?queue=hidden-queue", "?label=of:hidden", "?state=dead&include=payload", "?queue=q"} {
		add("", "/v1/tasks"+query, "")
	}
	for _, member := range []string{"ack", "release"} {
		add("POST settle", "/v1/queues/q/settle", `{"`+member+`":["`+receipt+`"]}`)
	}
	add("POST /v1/batch", "/v1/batch", strings.Join([]string{
		`{"op":"cancel","id":"hidden"}`, `{"op":"schedule","id":"hidden","delay":"1h","if_none_match":"*"}`,
		`{"op":"schedule","id":"t","delay":"1h","key":"k"}`, `{"op":"touch","id":"hidden","delay":"1h"}`,
	}, "\n"))
	worlds := newWorlds(t)
	for _, c := range calls {
		if compareWorlds(t, worlds, c[0], c[1], c[2], c[3]) {
			worlds = newWorlds(t)
		}
	}
	if len(calls) < 4000 {
		t.Errorf("%d calls", len(calls))
	}
}

func newWorlds(t *testing.T) [2]world {
	return [2]world{newWorld(t, withoutNeighbour), newWorld(t, withNeighbour)}
}

// random matches the parts of answers that differ from call to call: ids and texts of keys, and whether a small batch
// was answered in one piece.
var random = regexp.MustCompile(`("id":"|/v1/keys/)[a-z2-7]{10}\b|bfy_\w+|Content-Length:\[\d+\] `)

// compareWorlds reports whether the call may have changed something.
func compareWorlds(t *testing.T, worlds [2]world, caller, route, path, body string) (changed bool) {
	t.Helper()
	method, _, _ := strings.Cut(route, " ")
	if method == "" {
		method = "GET"
	}
	var answers [2]string
	for i, w := range worlds {
		header := []string{keyHeader, "k"}
		if kind := sampleCalls[route].kind; kind != "" {
			header = append(header, "Content-Type", kind)
		}
		a := w.as(caller, method, path, body, header...)
		answers[i] = random.ReplaceAllString(fmt.Sprint(a.StatusCode, a.Header, a.text), "$1")
		changed = changed || method != "GET" && a.StatusCode < 300
	}
	assert.Equal(t, answers[0], answers[1], "%s: %s %s %s shows what is in b", caller, method, path, body)
	if strings.Contains(answers[1], "of hidden") {
		t.Errorf("%s: %s %s: %s", caller, method, path, answers[1])
	}
	return changed
}

// TestForeignTokensAreGarbage checks that cursors and receipts of another namespace are answered as garbage is.
func TestForeignTokensAreGarbage(t *testing.T) {
	cursor, receipt := foreignTokens(t)
	list := func(cursor string) answer {
		return newWorld(t, withNeighbour).as("read@a", "GET", "/v1/tasks?cursor="+url.QueryEscape(cursor), "")
	}
	if got, want := list(cursor), list("AAAA"); got.text != want.text || got.StatusCode != 400 {
		t.Errorf("a cursor of another namespace: %s, garbage: %s", got.text, want.text)
	}
	settle := func(receipt string) string {
		a := newWorld(t, withNeighbour).as("consume@a", "POST", "/v1/queues/q/settle", `{"ack":["`+receipt+`"]}`)
		a.mustStatus(t, 200)
		return strings.ReplaceAll(a.text, receipt, "R")
	}
	if got, want := settle(receipt), settle("AAAA"); got != want || !strings.Contains(got, `"status":404`) {
		t.Errorf("a receipt of another namespace: %s, garbage: %s", got, want)
	}
}

// TestOneIDInTwoNamespaces checks that tasks of one id, also a generated one, live side by side.
func TestOneIDInTwoNamespaces(t *testing.T) {
	h := newHarness(t, withAccess)
	ids := map[any]bool{}
	for _, namespace := range []string{"default", "a", "b"} {
		h.as("schedule@"+namespace, "PUT", "/v1/tasks/x", `{"delay":"1h","payload":"`+namespace+`"}`).mustStatus(t, 201)
		made := h.as("schedule@"+namespace, "POST", "/v1/tasks", `{"delay":"1h"}`, keyHeader, "k")
		ids[made.mustStatus(t, 201)["id"]] = true
		path := "/v1/namespaces/" + namespace + "/tasks"
		repeated := h.as("schedule@"+namespace, "POST", path, `{"delay":"1h"}`, keyHeader, "k")
		if at := repeated.Header.Get("Location"); !strings.HasPrefix(at, path+"/t-") || at[len(path)+1:] !=
			made.Header.Get("Location")[len("/v1/tasks/"):] {
			t.Errorf("%s and %s", at, made.Header.Get("Location"))
		}
	}
	for _, namespace := range []string{"default", "a", "b"} {
		v := h.as("read@*", "GET", "/v1/namespaces/"+namespace+"/tasks/x", "").mustStatus(t, 200)
		if v["payload"] != namespace {
			t.Errorf("the task of %s is that of %v", namespace, v["payload"])
		}
		list := h.as("read@"+namespace, "GET", "/v1/tasks?prefix=x&include=payload", "").mustStatus(t, 200)["tasks"].([]any)
		if len(list) != 1 || list[0].(map[string]any)["payload"] != namespace {
			t.Errorf("the list of %s has %v", namespace, list)
		}
	}
	assert.Equal(t, len(ids), 3, "the same key makes the ids %v in three namespaces", ids)
	c := h.fake.last()
	assert.Equal(t, c.Namespace, "b", "the command is in")
}

// TestLeasesOfANamespace checks that consumers get the tasks of their namespace, and can settle only these.
func TestLeasesOfANamespace(t *testing.T) {
	h := newHarness(t, withAccess)
	for _, namespace := range []string{"", "a", "b"} {
		h.fake.tasks[placeOf(namespace, "x")] = &fsmpb.Task{Namespace: namespace, Id: "x", Revision: 1,
			State: fsmpb.State_STATE_READY, Spec: &fsmpb.Spec{Queue: "q", Payload: []byte(`"of ` + namespace + `"`)}}
	}
	v := h.as("consume@a", "POST", "/v1/queues/q/lease", `{"max":9}`).mustStatus(t, 200)
	tasks := v["tasks"].([]any)
	if len(tasks) != 1 || tasks[0].(map[string]any)["payload"] != "of a" {
		t.Fatalf("leased %v", tasks)
	}
	receipt := tasks[0].(map[string]any)["receipt"].(string)
	for caller, want := range map[string]float64{"consume@b": 404, "consume@a": 200} {
		v := h.as(caller, "POST", "/v1/queues/q/settle", `{"release":["`+receipt+`"]}`).mustStatus(t, 200)
		assert.Equal[any](t, v["results"].([]any)[0].(map[string]any)["status"], want, "%s settles: %v", caller, v)
	}
}
