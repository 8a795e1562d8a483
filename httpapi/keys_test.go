package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const keyForA = `{"name":"shop","grants":[{"role":"schedule","namespace":"a","queues":["orders*"],"ids":["o-*"]}],` +
	`"expires_at":"2027-01-15T08:00:00Z"}`

// TestKeyLife makes, shows, rotates and revokes a key. Only the answers that make a text show it.
func TestKeyLife(t *testing.T) {
	h := newHarness(t, withAccess)
	a := h.as("admin@a", "POST", "/v1/keys", keyForA)
	made := a.mustStatus(t, 201)
	id, text := made["id"].(string), made["key"].(string)
	if parsed, err := access.ParseKey(text); err != nil || parsed != id || a.Header.Get("Location") != "/v1/keys/"+id ||
		a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("made %s: %v, %v", a.text, err, a.Header)
	}
	want := `{"id":"` + id + `","name":"shop","grants":[{"role":"schedule","namespace":"a","queues":["orders*"],` +
		`"ids":["o-*"]}],"created_at":"2026-11-21T10:00:00.00025Z","expires_at":"2027-01-15T08:00:00Z",` +
		`"last_used_at":null}` + "\n"
	got := h.as("admin@a", "GET", "/v1/keys/"+id, "")
	assert.Equal(t, got.text, want)
	got = h.as("admin@a", "GET", "/v1/keys", "")
	assert.Equal(t, got.text, `{"keys":[`+strings.TrimSpace(want)+"]}\n", "list")
	if stored := h.fake.access.keys[0]; len(stored.Secrets) != 1 || stored.Secrets[0].Hash != access.Hash(text) {
		t.Errorf("stored %+v", stored)
	}
	second := h.as("admin@a", "POST", "/v1/keys/"+id+"/rotate", `{"overlap":"2d"}`).mustStatus(t, 201)["key"].(string)
	if parsed, err := access.ParseKey(second); err != nil || parsed != id || second == text {
		t.Errorf("rotated to %q: %v", second, err)
	}
	secrets := h.fake.access.keys[0].Secrets
	if len(secrets) != 2 || secrets[1].Hash != access.Hash(second) ||
		!secrets[0].Expires.Equal(testNow.Add(48*time.Hour)) {
		t.Errorf("secrets %+v", secrets)
	}
	h.as("admin@a", "POST", "/v1/keys/"+id+"/rotate", "").mustProblem(t, 409, "")
	if a := h.as("admin@a", "DELETE", "/v1/keys/"+id, ""); a.StatusCode != 204 || len(h.fake.access.keys) != 0 {
		t.Errorf("%d %s", a.StatusCode, a.text)
	}
	h.as("admin@a", "DELETE", "/v1/keys/"+id, "").mustProblem(t, 404, "")
}

// TestFirstKey checks that a caller without credentials makes no key that would lock all callers out, and that callers
// with credentials do.
func TestFirstKey(t *testing.T) {
	const admin = `{"role":"admin","namespace":"*"}`
	open, guarded := newHarness(t), newHarness(t, withAccess)
	for _, grants := range []string{
		`{"role":"schedule","namespace":"default"}`, `{"role":"operate","namespace":"*"}`,
		`{"role":"admin","namespace":"default"},{"role":"read","namespace":"*"}`,
		`{"role":"admin","namespace":"*","queues":["*"]}`, `{"role":"admin","namespace":"*","ids":["a*"]}`,
	} {
		body := `{"name":"first","grants":[` + grants + `]}`
		refused := open.call("POST", "/v1/keys", body)
		refused.mustProblem(t, 400, "grants")
		assert.Contains(t, refused.text, `"limit":"the first key is admin of the namespace \"*\"`)
		guarded.as("admin@*", "POST", "/v1/keys", body).mustStatus(t, 201)
	}
	ending := `{"name":"first","grants":[` + admin + `],"expires_at":"` + testNow.Add(time.Hour).Format(time.RFC3339) + `"}`
	open.call("POST", "/v1/keys", ending).mustProblem(t, 400, "expires_at")
	guarded.as("admin@*", "POST", "/v1/keys", ending).mustStatus(t, 201)
	assert.MustEqual(t, len(open.fake.access.keys), 0, "keys were made")
	open.call("POST", "/v1/keys", `{"name":"first","grants":[{"role":"read",`+
		`"namespace":"a"},`+admin+`]}`).mustStatus(t, 201)
}

// TestKeyQuotas checks that a key may have the quotas of calls, and is shown with them.
func TestKeyQuotas(t *testing.T) {
	h := newHarness(t, withAccess)
	const body = `{"name":"n","grants":[{"role":"read","namespace":"a"}],"quotas":`
	const quotas = `{"max_payload":1000,"schedules_per_second":2.5,"calls_per_second":10,"max_consumers":3}`
	id := h.as("admin@a", "POST", "/v1/keys", body+quotas+"}").mustStatus(t, 201)["id"].(string)
	got := h.as("admin@a", "GET", "/v1/keys/"+id, "")
	assert.Contains(t, got.text, `"quotas":`+quotas+`,"created_at"`)
	for _, member := range []string{"max_pending", "max_bytes", "max_queues", "weight", "other"} {
		h.as("admin@a", "POST", "/v1/keys", body+`{"`+member+`":1}}`).mustProblem(t, 400, "quotas."+member)
	}
	h.as("admin@a", "POST", "/v1/keys", body+`{"max_payload":0}}`).mustProblem(t, 400, "quotas.max_payload")
}

// TestKeysOfOthers checks that an administrator of a namespace finds no sign of keys that reach beyond it, and makes
// none.
func TestKeysOfOthers(t *testing.T) {
	h := newHarness(t, withAccess)
	for id, grants := range map[string]string{
		"inside": "read@a schedule@a", "beyond": "read@a read@b", "others": "read@b", "every": "read@*", "empty": "",
	} {
		h.fake.access.keys = append(h.fake.access.keys, access.KeyRecord{ID: id, Name: id, Grants: testCaller(grants).Grants})
	}
	for caller, want := range map[string][]string{
		"admin@a": {"inside"}, "admin@b": {"others"}, "admin@a admin@b": {"beyond", "inside", "others"},
		"admin@*": {"beyond", "empty", "every", "inside", "others"}, "admin@a queues=q": {}, "admin@a ids=x": {},
	} {
		visible := map[string]bool{}
		for _, k := range h.as(caller, "GET", "/v1/keys", "").mustStatus(t, 200)["keys"].([]any) {
			visible[k.(map[string]any)["id"].(string)] = true
		}
		for _, id := range want {
			if !visible[id] {
				t.Errorf("%s does not see %s", caller, id)
			}
		}
		assert.Equal(t, len(visible), len(want), "%s sees %v", caller, visible)
		for _, id := range []string{"inside", "beyond", "others", "every", "empty"} {
			if visible[id] {
				continue
			}
			for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/rotate"}} {
				got, none := h.as(caller, call[0], "/v1/keys/"+id+call[1], ""), h.as(caller, call[0], "/v1/keys/none"+call[1], "")
				if got.mustProblem(t, 404, ""); got.text != none.text {
					t.Errorf("%s: %s: %s, none: %s", caller, id, got.text, none.text)
				}
			}
		}
	}
	assert.Equal(t, len(h.fake.access.keys), 5, "keys are %+v", h.fake.access.keys)
	for caller, grant := range map[string]string{
		"admin@a":          `{"role":"read","namespace":"b"}`,
		"admin@a admin@b":  `{"role":"read","namespace":"*"}`,
		"admin@a queues=q": `{"role":"read","namespace":"a","queues":["q"]}`,
	} {
		h.as(caller, "POST", "/v1/keys", `{"name":"n","grants":[`+grant+`]}`).mustProblem(t, 403, "grants[0].namespace")
	}
	h.as("admin@a", "POST", "/v1/keys", `{"name":"n","grants":[{"role":"read","namespace":"a"},{"role":"read",`+
		`"namespace":"b"}]}`).
		mustProblem(t, 403, "grants[1].namespace")
	h.as("operate@*", "POST", "/v1/keys", keyForA).mustProblem(t, 403, "")
}

func TestBadKeys(t *testing.T) {
	h := newHarness(t, withAccess)
	grant := `{"role":"read","namespace":"a"}`
	for _, c := range []struct{ body, field string }{
		{`{}`, "name"}, {`{"name":""}`, "name"}, {`{"name":"` + strings.Repeat("ä", 101) + `"}`, "name"},
		{`{"name":1}`, "name"},
		{`{"name":"n"}`, "grants"}, {`{"name":"n","grants":[]}`, "grants"}, {`{"name":"n","grants":{}}`, "grants"},
		{`{"name":"n","grants":[1]}`, "grants[0]"}, {`{"name":"n","grants":[{}]}`, "grants[0].role"},
		{`{"name":"n","grants":[{"role":"root","namespace":"a"}]}`, "grants[0].role"},
		{`{"name":"n","grants":[{"role":"open","namespace":"a"}]}`, "grants[0].role"},
		{`{"name":"n","grants":[{"role":"read"}]}`, "grants[0].namespace"},
		{`{"name":"n","grants":[{"role":"read","namespace":"A"}]}`, "grants[0].namespace"},
		{`{"name":"n","grants":[{"role":"read","namespace":"a","queues":[1]}]}`, "grants[0].queues[0]"},
		{`{"name":"n","grants":[{"role":"read","namespace":"a","ids":["a*b"]}]}`, "grants[0].ids[0]"},
		{`{"name":"n","grants":[{"role":"read","namespace":"a","x":1}]}`, "grants[0].x"},
		{`{"name":"n","grants":[{"role":"read","role":"read","namespace":"a"}]}`, "grants[0].role"},
		{`{"name":"n","grants":[` + strings.Repeat(grant+",", 20) + grant + `]}`, "grants"},
		{`{"name":"n","grants":[{"role":"read","namespace":"a",` +
			`"queues":[` + strings.Repeat(`"q",`, 20) + `"q"]}]}`, "grants[0].queues"},
		{`{"name":"n","grants":[` + grant + `],"expires_at":"2026-11-21T10:00:00Z"}`, "expires_at"},
		{`{"name":"n","grants":[` + grant + `],"expires_at":"soon"}`, "expires_at"},
		{`{"name":"n","grants":[` + grant + `],"expires_at":"9999-12-31T23:59:59.9995Z"}`, "expires_at"},
		{`{"name":"n","name":"n"}`, "name"}, {`{"secret":"x"}`, "secret"}, {`{"name":"n"} x`, ""}, {`[]`, ""}, {``, ""},
	} {
		h.as("admin@a", "POST", "/v1/keys", c.body).mustProblem(t, 400, c.field)
	}
	h.fake.access.keys = []access.KeyRecord{{
		ID: "k", Grants: testCaller("read@a").Grants, Secrets: make([]access.KeySecret, 1),
	}}
	for _, overlap := range []string{"-1s", "31d", "soon"} {
		h.as("admin@a", "POST", "/v1/keys/k/rotate", `{"overlap":"`+overlap+`"}`).mustProblem(t, 400, "overlap")
	}
	h.fake.readErr = &task.FieldError{Field: "grants[0].namespace", Detail: "is no namespace"}
	h.as("admin@a", "POST", "/v1/keys", keyForA).mustProblem(t, 400, "grants[0].namespace")
	h.fake.readErr = task.ErrNotProposed
	h.as("admin@a", "POST", "/v1/keys", keyForA).mustProblem(t, 503, "")
	h.as("admin@a", "DELETE", "/v1/keys/k", "").mustProblem(t, 503, "")
}

func TestWhoAmI(t *testing.T) {
	h := newHarness(t, withAccess)
	none := `{"kind":"key","id":" ","name":"the key  ","grants":[],"namespace":"default"}` + "\n"
	got := h.as(" ", "GET", "/v1/whoami", "")
	assert.Equal(t, got.text, none, "a caller without grants")
	h.as(" ", "GET", "/v1/namespaces", "").mustProblem(t, 403, "")
	want := `{"kind":"key","id":"read@a queues=q,r*","name":"the key read@a queues=q,r*","grants":[{"role":"read",` +
		`"namespace":"a","queues":["q","r*"]}],"namespace":"a"}` + "\n"
	got = h.as("read@a queues=q,r*", "GET", "/v1/whoami", "")
	assert.Equal(t, got.text, want)
	want = `{"kind":"local","id":"","name":"","grants":[{"role":"admin","namespace":"*"}],"namespace":"default"}` + "\n"
	got = newHarness(t).call("GET", "/v1/whoami", "")
	assert.Equal(t, got.text, want)
}

// TestNamespaceLife makes, changes, shows and deletes a namespace. A namespace that is being deleted refuses calls as
// one that does not exist.
func TestNamespaceLife(t *testing.T) {
	h := newHarness(t, withAccess)
	quotas := `{"max_pending":1000,"max_bytes":1048576,"max_payload":1024,"schedules_per_second":12.5,` +
		`"calls_per_second":100,` +
		`"max_consumers":7,"max_queues":9,"weight":3}`
	h.as("admin@*", "PUT", "/v1/namespaces/new", quotas).mustStatus(t, 201)
	h.as("admin@*", "PUT", "/v1/namespaces/new", quotas).mustStatus(t, 200)
	want := `{"name":"new",` + quotas[1:len(quotas)-1] + `,"state":"active","created_at":"2026-11-21T10:00:00.000Z",` +
		`"used":{"pending":0,"dead":0,"bytes":0,"queues":0,"consumers":0,"schedules_per_second":0,"calls_per_second":0}}` +
		"\n"
	got := h.as("read@new", "GET", "/v1/namespaces/new", "")
	assert.Equal(t, got.text, want)
	h.as("schedule@new", "PUT", "/v1/tasks/x", `{"delay":"1h","payload":"1234"}`).mustStatus(t, 201)
	used := h.as("read@new", "GET", "/v1/namespaces/new", "").mustStatus(t, 200)["used"]
	const none = "map[bytes:6 calls_per_second:0 consumers:0 dead:0 pending:1 queues:0 schedules_per_second:0]"
	assert.Equal(t, fmt.Sprint(used), none, "used")
	h.as("admin@*", "PUT", "/v1/namespaces/new", "").mustStatus(t, 200)
	assert.Equal(t, h.fake.access.namespaces["new"].Quotas, view.Quotas{}, "a PUT without quotas leaves")
	a := h.as("admin@*", "DELETE", "/v1/namespaces/new", "")
	op := a.mustStatus(t, 202)
	if op["namespace"] != "new" || a.Header.Get("Location") != "/v1/operations/"+op["id"].(string) {
		t.Errorf("%v %v", op, a.Header)
	}
	for _, caller := range []string{"schedule@new", "admin@*"} {
		h.as(caller, "GET", "/v1/namespaces/new/tasks/x", "").mustProblem(t, 404, "")
		if n := len(h.as(caller, "GET", "/v1/operations", "").mustStatus(t, 200)["operations"].([]any)); n != 1 {
			t.Errorf("%s sees %d operations", caller, n)
		}
	}
	if state := h.as("read@*", "GET", "/v1/namespaces/new", "").mustStatus(t, 200)["state"]; state != "deleting" {
		t.Errorf("the namespace is %v", state)
	}
	h.as("admin@*", "DELETE", "/v1/operations/"+op["id"].(string), "").mustProblem(t, 409, "")
	h.as("admin@*", "DELETE", "/v1/namespaces/default", "").mustProblem(t, 409, "")
	h.as("admin@*", "DELETE", "/v1/namespaces/none", "").mustProblem(t, 404, "")
	h.as("admin@a", "DELETE", "/v1/namespaces/a", "").mustProblem(t, 403, "")
	for _, c := range [][2]string{
		{`{"max_pending":0}`, "max_pending"}, {`{"weight":0}`, "weight"}, {`{"max_bytes":1e30}`, "max_bytes"},
		{`{"calls_per_second":-1}`, "calls_per_second"}, {`{"limit":1}`, "limit"}, {`{"max_queues":"1"}`, "max_queues"},
	} {
		h.as("admin@*", "PUT", "/v1/namespaces/a", c[0]).mustProblem(t, 400, c[1])
	}
	h.as("admin@*", "PUT", "/v1/namespaces/A", "{}").mustProblem(t, 400, "namespace")
}

// TestNamespacesOfOthers checks that a namespace that a caller's grants do not reach is as one that does not exist.
func TestNamespacesOfOthers(t *testing.T) {
	h := newHarness(t, withAccess)
	for caller, want := range map[string]string{
		"read@a": `[a]`, "read@a consume@b": `[a b]`, "read@none": `[]`, "read@*": `[a b default]`,
	} {
		var names []string
		for _, n := range h.as(caller, "GET", "/v1/namespaces", "").mustStatus(t, 200)["namespaces"].([]any) {
			names = append(names, n.(map[string]any)["name"].(string))
		}
		assert.Equal(t, "["+strings.Join(names, " ")+"]", want, "%s sees", caller)
	}
	others, none := h.as("read@a", "GET", "/v1/namespaces/b", ""), h.as("read@a", "GET", "/v1/namespaces/none", "")
	if others.mustProblem(t, 404, ""); others.text != none.text {
		t.Errorf("another's: %s, none: %s", others.text, none.text)
	}
}

// TestOutlivingKeysAreShown checks that an answer with the text of a key tells whether the key ends later than the key
// that asked for it.
func TestOutlivingKeysAreShown(t *testing.T) {
	const soon, later = "2027-01-15T08:00:00Z", "2027-01-15T08:00:01Z"
	end, err := time.Parse(time.RFC3339, soon)
	assert.NoError(t, err)
	for _, c := range []struct {
		maker    time.Time
		expires  string
		outlives bool
	}{
		{end, `,"expires_at":"` + soon + `"`, false}, {end, `,"expires_at":"` + later + `"`, true}, {end, "", true},
		{time.Time{}, "", false}, {time.Time{}, `,"expires_at":"` + later + `"`, false},
	} {
		maker := testCaller("admin@a")
		maker.Expires = c.maker
		h := newHarness(t, func(cfg *Config) {
			cfg.Access = accessFunc(func(access.Credentials) (*access.Caller, error) { return maker, nil })
		})
		body := `{"name":"n","grants":[{"role":"read","namespace":"a"}]` + c.expires + "}"
		made := h.call("POST", "/v1/keys", body).mustStatus(t, 201)
		rotated := h.call("POST", "/v1/keys/"+made["id"].(string)+"/rotate", "").mustStatus(t, 201)
		answer := h.call("GET", "/v1/keys/"+made["id"].(string), "").text
		if (made["outlives_maker"] == true) != c.outlives || (rotated["outlives_maker"] == true) != c.outlives ||
			strings.Contains(answer, "outlives") {
			t.Errorf("%+v: %v, rotated %v, shown %s", c, made, rotated, answer)
		}
	}
}

// TestEmptyNamespace checks that a path with nothing in the place of a namespace is that of no namespace: a script
// whose variable is empty must not change the default one.
func TestEmptyNamespace(t *testing.T) {
	h := newHarness(t, withAccess)
	for _, caller := range []string{"admin@*", "schedule@a"} {
		for _, call := range []string{"GET /tasks", "PUT /tasks/x", "DELETE /tasks/x", "GET /queues/q"} {
			method, rest, _ := strings.Cut(call, " ")
			empty := h.as(caller, method, "/v1/namespaces/"+rest, `{"delay":"1h"}`)
			none := h.as(caller, method, "/v1/namespaces/none"+rest, `{"delay":"1h"}`)
			if empty.mustProblem(t, 404, ""); empty.text != none.text {
				t.Errorf("%s: %s: %s, with a namespace that does not exist: %s", caller, call, empty.text, none.text)
			}
		}
	}
}
