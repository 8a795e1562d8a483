package node

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/httpapi"
	"github.com/belfryhq/belfry/internal/assert"
)

// tenantAPI is the API of a running node, with the callers of the cluster's own keys.
type tenantAPI struct {
	t   *testing.T
	api http.Handler
}

func newTenantAPI(t *testing.T) *tenantAPI {
	n, _ := start(t, testConfig(t))
	callers, err := access.New(access.Config{Source: n.cluster.Tenants()})
	assert.NoError(t, err)
	api, err := httpapi.New(httpapi.Config{Backend: newBackend(n.cluster), Access: callers})
	assert.NoError(t, err)
	return &tenantAPI{t, api}
}

// call sends a request with a key, and checks the status of the answer.
func (a *tenantAPI) call(status int, key, method, path, body string) string {
	a.t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	a.api.ServeHTTP(w, r)
	if w.Code != status {
		a.t.Fatalf("%s %s %s: %d %s, not %d", method, path, body, w.Code, w.Body, status)
	}
	return w.Body.String()
}

// key makes a key with one grant.
func (a *tenantAPI) key(by, grant string) string {
	a.t.Helper()
	var made struct{ Key string }
	text := a.call(201, by, "POST", "/v1/keys", `{"name":"test","grants":[`+grant+`]}`)
	assert.NoError(a.t, json.Unmarshal([]byte(text), &made))
	return made.Key
}

// TestNamespacesAreApart keeps tasks of one id in two namespaces of a running cluster. A key of one namespace finds no
// sign of the other: calls about its things are answered as calls about things that do not exist.
func TestNamespacesAreApart(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		a := newTenantAPI(t)
		a.call(201, "", "PUT", "/v1/namespaces/red", `{"max_pending":100,"weight":2}`)
		a.call(201, "", "PUT", "/v1/namespaces/blue", "")
		a.call(400, "", "PUT", "/v1/namespaces/red", `{"weight":101}`)
		a.call(400, "", "POST", "/v1/keys", `{"name":"x","grants":[{"role":"read","namespace":"none"}]}`)
		root := a.key("", `{"role":"admin","namespace":"*"}`)
		a.call(401, "", "GET", "/v1/tasks", "")
		limited := a.call(201, root, "POST", "/v1/keys",
			`{"name":"x","grants":[{"role":"read","namespace":"red"}],"quotas":{"calls_per_second":5}}`)
		assert.Contains(t, limited, `"quotas":{"calls_per_second":5}`, "a key with quotas")
		red := a.key(root, `{"role":"admin","namespace":"red"}`)
		for _, path := range []string{"/v1/namespaces/red", "/v1/namespaces/blue", "/v1"} {
			for _, id := range []string{"same", "of" + strings.ReplaceAll(path, "/", "-")} {
				a.call(201, root, "PUT", path+"/tasks/"+id, `{"delay":"0s","queue":"q","payload":"in `+path+`"}`)
			}
			a.call(201, root, "PUT", path+"/queues/of"+strings.ReplaceAll(path, "/", "-"), `{"max_in_flight":3}`)
		}
		for _, path := range []string{
			"/v1/tasks", "/v1/tasks?include=payload&queue=q", "/v1/tasks?prefix=of", "/v1/queues", "/v1/queues/q", "/v1/tasks/same",
			"/v1/namespaces/red/tasks", "/v1/namespaces", "/v1/whoami", "/v1/keys",
		} {
			text := a.call(200, red, "GET", path, "")
			if strings.Contains(text, "blue") || strings.Contains(text, "of-v1\"") || !strings.Contains(text, "red") &&
				!strings.Contains(path, "/queues/q") {
				t.Errorf("%s: %s", path, text)
			}
		}
		used := a.call(200, red, "GET", "/v1/namespaces/red", "")
		assert.Contains(t, used, `"used":{"pending":2,"dead":0,`, "the use of red")
		none := a.call(404, red, "GET", "/v1/tasks/none", "")
		for _, path := range []string{
			"/v1/tasks/of-v1-namespaces-blue", "/v1/namespaces/blue/tasks/same", "/v1/namespaces/none/tasks/same",
			"/v1/namespaces/blue/queues", "/v1/namespaces/default/tasks/same",
		} {
			if got := a.call(404, red, "GET", path, ""); got != none {
				t.Errorf("%s: %s, none: %s", path, got, none)
			}
		}
		assert.Contains(t, a.call(200, red, "GET", "/v1/queues/q", ""), `"ready":2`, "the queue of red")
		if leased := a.call(200, red, "POST", "/v1/queues/q/lease", `{"max":100,"wait":"1m"}`); strings.Contains(leased, "blue") {
			t.Errorf("leased %s", leased)
		}
		a.call(200, root, "POST", "/v1/namespaces/blue/queues/q/pause", "")
		if found := a.call(200, root, "GET", "/v1/doctor", ""); !strings.Contains(found, "belfry queue resume q --namespace blue") {
			t.Errorf("the paused queue of blue is not found: %s", found)
		}
		a.call(403, red, "GET", "/v1/doctor", "")
		a.call(403, red, "GET", "/v1/cluster", "")
		if routes := a.call(200, red, "GET", "/v1/map", ""); strings.Contains(routes, "blue") ||
			!strings.Contains(routes, `"namespace":"red"`) || !strings.Contains(routes, `"http_url":"http://`) ||
			!strings.Contains(routes, `"slots":[{"first":0,`) {
			t.Errorf("the map: %s", routes)
		}
		a.call(403, red, "GET", "/metrics", "")
		a.call(403, red, "POST", "/v1/keys", `{"name":"x","grants":[{"role":"read","namespace":"blue"}]}`)
	})
}

// TestKeysOfANode makes, rotates and revokes a key of a running cluster. Each change is in force with its answer.
func TestKeysOfANode(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		a := newTenantAPI(t)
		root := a.key("", `{"role":"admin","namespace":"*"}`)
		first := a.key(root, `{"role":"read","namespace":"default"}`)
		a.call(200, first, "GET", "/v1/tasks", "")
		id, _ := access.ParseKey(first)
		var rotated struct{ Key string }
		text := a.call(201, root, "POST", "/v1/keys/"+id+"/rotate", `{"overlap":"0s"}`)
		assert.NoError(t, json.Unmarshal([]byte(text), &rotated))
		a.call(401, first, "GET", "/v1/tasks", "")
		a.call(200, rotated.Key, "GET", "/v1/tasks", "")
		a.call(403, rotated.Key, "PUT", "/v1/tasks/x", `{"delay":"1h"}`)
		a.call(204, root, "DELETE", "/v1/keys/"+id, "")
		a.call(401, rotated.Key, "GET", "/v1/tasks", "")
		a.call(404, root, "GET", "/v1/keys/"+id, "")
		rootID, _ := access.ParseKey(root)
		a.call(204, root, "DELETE", "/v1/keys/"+rootID, "")
		a.call(401, "", "GET", "/v1/tasks", "") // keys stay in force
		a.call(401, root, "GET", "/v1/tasks", "")
	})
}

// TestDeletedNamespaceIsGone checks that a namespace that is being deleted is answered as one that does not exist, and
// that its operation names it.
func TestDeletedNamespaceIsGone(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		a := newTenantAPI(t)
		a.call(201, "", "PUT", "/v1/namespaces/red", "")
		a.call(201, "", "PUT", "/v1/namespaces/red/tasks/x", `{"delay":"1h"}`)
		if op := a.call(202, "", "DELETE", "/v1/namespaces/red", ""); !strings.Contains(op, `"kind":"delete_namespace","namespace":"red"`) {
			t.Errorf("the operation is %s", op)
		}
		if gone, none := a.call(404, "", "GET", "/v1/namespaces/red/tasks/x", ""), a.call(404, "", "GET", "/v1/tasks/x", ""); gone != none {
			t.Errorf("gone: %s, none: %s", gone, none)
		}
		a.call(404, "", "PUT", "/v1/namespaces/red/tasks/y", `{"delay":"1h"}`)
		a.call(404, "", "DELETE", "/v1/namespaces/blue", "")
		a.call(409, "", "DELETE", "/v1/namespaces/default", "")
	})
}
