package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// browsing is a request in the form that a browser sends for a page.
type browsing struct {
	method, path string
	host         string            // empty: the node's address
	headers      map[string]string // added by the browser
}

func (b browsing) ask(t *testing.T, node string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), b.method, node+b.path, http.NoBody)
	assert.NoError(t, err)
	req.Host = b.host
	for name, value := range b.headers {
		req.Header.Set(name, value)
	}
	return exchange(t, req)
}

// A web page in a browser beside a real node has no access to the node: neither by an image, nor by a form or a fetch
// without a body, nor by the node's address under the page's own host name.
func TestWebPageReachesNothing(t *testing.T) {
	addr, c, namespace := inNamespace(t)
	node, in := "http://"+addr, "/v1/namespaces/"+namespace
	const ready, waiting, dead = "ready", "waiting", "dead"
	for _, task := range []client.Task{
		{ID: ready, Queue: "jobs", FireAt: time.Now()},
		{ID: waiting, Delay: time.Hour},
		{ID: dead, Queue: "failed", FireAt: time.Now(), Target: &client.Target{URL: "http://127.0.0.1:1/"},
			Retry: &client.Retry{MaxAttempts: 1}},
	} {
		_, err := c.Schedule(t.Context(), task)
		assert.NoError(t, err)
	}
	before := map[string]client.Task{}
	for id, state := range map[string]client.State{
		ready: client.StateReady, waiting: client.StateScheduled, dead: client.StateDead,
	} {
		before[id] = awaitState(t, c, id, state)
	}

	image := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
	fetch := map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors",
		"Content-Type": "text/plain;charset=UTF-8"}
	oldFetch := map[string]string{"Origin": "https://evil.example"} // from a browser without fetch metadata
	sandboxed := map[string]string{"Origin": "null"}
	rebound := map[string]string{"Origin": "http://evil.example:8400", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
	posts := []string{in + "/tasks/waiting/fire", in + "/tasks/waiting/touch", in + "/queues/jobs/lease",
		in + "/queues/failed/dead/replay", in + "/queues/jobs/stream?credit=10"}
	var attacks []browsing
	for _, path := range posts {
		for _, headers := range []map[string]string{fetch, oldFetch, sandboxed} {
			attacks = append(attacks, browsing{"POST", path, "", headers})
		}
		attacks = append(attacks, browsing{"POST", path, "evil.example:8400", rebound}, browsing{"POST", path, "evil.example:8400", nil})
	}
	for _, path := range []string{"/v1/tasks", in + "/tasks", in + "/tasks/waiting", in + "/queues/jobs/stream?credit=10", "/v1/cluster",
		"/metrics", "/openapi.yaml"} {
		attacks = append(attacks, browsing{"GET", path, "", image}, browsing{"GET", path, "evil.example:8400", nil})
	}
	attacks = append(attacks, browsing{"DELETE", in + "/tasks/waiting", "evil.example:8400", rebound},
		browsing{"OPTIONS", in + "/tasks/waiting", "", map[string]string{"Origin": "https://evil.example",
			"Access-Control-Request-Method": "DELETE"}})
	for _, attack := range attacks {
		if status, body := attack.ask(t, node); status != http.StatusForbidden || !strings.Contains(body, "foreign-origin") {
			t.Errorf("%+v: %d %s", attack, status, body)
		}
	}
	// A browser may send no header about the page of an image. The GET then has no effect, because the path has no
	// GET.
	status, body := (browsing{"GET", in + "/queues/jobs/stream?credit=10", "", nil}).ask(t, node)
	assert.Equal(t, status, 405, "GET of a stream: %s", body)
	for id, was := range before {
		now, err := c.Get(t.Context(), id)
		if err != nil || now.Revision != was.Revision || now.State != was.State {
			t.Errorf("%s was %s at revision %d, and is %+v (%v)", id, was.State, was.Revision, now, err)
		}
	}

	for _, b := range []browsing{
		{"GET", in + "/tasks/waiting", "", nil}, {"GET", in + "/tasks/waiting", "localhost", nil},
		{"GET", in + "/tasks/waiting", "belfry.example", nil}, {"GET", "/readyz", "10-0-0-1.probe", nil},
		{"GET", in + "/tasks/waiting", "", map[string]string{"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}},
		{"POST", in + "/queues/jobs/lease", "", nil},
	} {
		status, body := b.ask(t, node)
		assert.Equal(t, status, http.StatusOK, "%+v: %s", b, body)
	}
}

func awaitState(t *testing.T, c *client.Client, id string, state client.State) client.Task {
	t.Helper()
	var task *client.Task
	awaitNil(t, func() (err error) {
		task, err = c.Get(t.Context(), id)
		if err == nil && task.State != state {
			err = fmt.Errorf("%s is %+v, not %s", id, task, state)
		}
		return err
	})
	return *task
}

func TestOriginFlagsAreChecked(t *testing.T) {
	for flag, value := range map[string]string{"--allow-host": "a:80", "--allow-origin": "*", "--advertise-http": "a b:8400"} {
		root := newRoot()
		root.SetArgs([]string{"serve", "--http", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), flag, value})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
}
