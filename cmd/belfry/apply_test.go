package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

const someSettings = `kind: schedule
name: report
spec:
  repeat: {cron: ["0 9 * * *"], calendar: de, start: 2027-01-01T00:00:00+01:00}
  task: {queue: orders, payload: {b: 1, a: 2}, labels: {origin: git}}
---
kind: schedule
name: poll
spec: {repeat: {every: 900s}, overlap: allow}
---
kind: queue
name: orders
spec:
  target: {url: "https://x.example/", headers: {X-Shop: "1", Authorization: Bearer abc}}
  max_in_flight: 20
---
{"kind": "calendar", "name": "de", "spec": {"closed": ["--12-25"]}}
`

// applyWorld is a namespace of a real node, and a folder of documents.
type applyWorld struct {
	t            *testing.T
	addr, folder string
	c            *client.Client
}

func newApplyWorld(t *testing.T) *applyWorld {
	w := &applyWorld{t: t, folder: t.TempDir()}
	w.addr, w.c, _ = inNamespace(t)
	return w
}

func (w *applyWorld) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.folder, name)
	assert.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	assert.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

// must applies the folder, and checks the output.
func (w *applyWorld) must(want string, args ...string) {
	w.t.Helper()
	out, code := belfry(w.t, append([]string{"apply", "-f", w.folder, "--addr", w.addr}, args...)...)
	if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "abc") {
		w.t.Errorf("apply %v: exit %d, want %q\n%s", args, code, want, out)
	}
}

// TestApply makes the settings of a folder on a real node, changes them, and prunes.
func TestApply(t *testing.T) {
	w := newApplyWorld(t)
	w.write("sub/a.yaml", someSettings)
	w.must("4 to create, 0 to change, 0 to delete, 0 equal", "--dry-run")
	_, err := w.c.GetSchedule(t.Context(), "report")
	assert.ErrorIs(t, err, client.ErrNotFound, "after a dry run")
	w.must("4 to create, 0 to change, 0 to delete, 0 equal")
	w.must("  target.headers.authorization: \"***\" → \"(the value of the document)\"\n" +
		"0 to create, 1 to change, 0 to delete, 3 equal")
	w.write("sub/a.yaml", strings.NewReplacer("Bearer abc", `"***"`).Replace(someSettings))
	w.must("0 to create, 0 to change, 0 to delete, 4 equal")

	w.write("sub/a.yaml", strings.NewReplacer("Bearer abc", `"***"`, "flight: 20", "flight: 30", "a: 2", "a: 3", ", overlap: allow", "").
		Replace(someSettings))
	w.must("change queue orders\n  max_in_flight: 20 → 30\nchange schedule report\n" +
		"  task.payload: {\"a\":2,\"b\":1} → {\"a\":3,\"b\":1}\nchange schedule poll\n  overlap: \"allow\" → \"skip\"\n" +
		"0 to create, 3 to change")
	w.must("0 to create, 0 to change, 0 to delete, 4 equal")

	for _, id := range []string{"old", "other"} {
		s := client.Schedule{ID: id, Repeat: client.Repeat{Cron: []string{"@daily"}}}
		if id == "old" {
			s.Task.Labels = map[string]string{"origin": "git"}
		}
		_, err := w.c.PutSchedule(t.Context(), s)
		assert.NoError(t, err)
	}
	w.must("delete schedule old\n0 to create, 0 to change, 1 to delete", "--dry-run", "--prune", "schedules:label=origin:git")
	out, code := belfry(t, "apply", "-f", w.folder, "--addr", w.addr, "--prune", "schedules:label=origin:git")
	if code != exitUsage || !strings.Contains(out, "give --yes") {
		t.Errorf("a prune without --yes: %d\n%s", code, out)
	}
	w.must("1 to delete, 4 equal", "--prune", "schedules:label=origin:git", "--prune", "calendars:prefix=d", "--yes")
	_, err = w.c.GetSchedule(t.Context(), "old")
	assert.ErrorIs(t, err, client.ErrNotFound, "a pruned schedule")
	_, err = w.c.GetSchedule(t.Context(), "other")
	assert.NoError(t, err)
}

// TestApplyNothingOfFaultyDocuments checks that one faulty document keeps all others from being applied.
func TestApplyNothingOfFaultyDocuments(t *testing.T) {
	w := newApplyWorld(t)
	w.write("a.yaml", someSettings)
	for text, want := range map[string]string{
		"kind: queue\nname: q\nspec: {max: 1}":                                               "b.yaml:3: spec.max is not a field",
		"kind: queue\nname: q\nspec: {paused: 'yes'}":                                        "b.yaml:3: spec.paused must be true or false",
		"kind: queue\nname: q\nspec:\n  target: {url: 'http://x', headers: {cookie: '***'}}": "b.yaml:4: spec.target.headers.cookie is ***",
		"kind: schedule\nname: s\nspec:\n  repeat:\n    cron: ['61 * * * *']":                "b.yaml:5: spec.repeat.cron[0] is wrong",
		"kind: schedule\nname: s\nspec: {repeat: {every: 1}}":                                "b.yaml:3: spec",
		"kind: calendar\nname: de\nspec: {closed: []}":                                       "b.yaml:3: spec describes calendar de a second time",
		"kind: calendar\nname: de2\nspec: {closed: 7}":                                       "b.yaml:3: spec.closed must not be a number",
		"kind: key\nname: k\nspec: {grants: [{role: read, namespace: x}]}":                   "b.yaml:3: spec describes a key that does not exist; give --keys",
		"kind: key\nname: k": "b.yaml:1: spec.grants is absent",
		"kind: queue\nname: q\n---\nkind: q\nname: q\n---\nkind: queue\nname: r\nspec: {fifo: 0}": "b.yaml:4: kind is",
	} {
		w.write("b.yaml", text)
		out, code := belfry(t, "apply", "-f", w.folder, "--addr", w.addr)
		if code != exitFailed || !strings.Contains(out, want) {
			t.Errorf("%s\nexit %d, want %q\n%s", text, code, want, out)
		}
	}
	_, err := w.c.Calendar(t.Context(), "de")
	assert.ErrorIs(t, err, client.ErrNotFound, "a calendar beside faulty documents")
	for line, want := range map[string]string{
		"apply":                                     "give --file",
		"apply -f x --prune keys:prefix=a":          "--prune is",
		"apply -f x --prune schedules":              "--prune is",
		"apply -f x --prune schedules:prefix=":      "--prune is",
		"apply -f x --prune queues:label=a:b":       "--prune is",
		"apply -f x --prune schedules:label=origin": "--prune",
	} {
		out, code := belfry(t, append(strings.Fields(line), "--addr", w.addr)...)
		if code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("belfry %s: %d, want %q\n%s", line, code, want, out)
		}
	}
}

// TestApplyStopsAtARefusal checks that the error of the service says what was done before.
func TestApplyStopsAtARefusal(t *testing.T) {
	w := newApplyWorld(t)
	w.write("a.yaml", "kind: queue\nname: a\nspec: {max_in_flight: 5}\n---\nkind: queue\nname: b\nspec: {max_in_flight: -1}")
	out, code := belfry(t, "apply", "-f", w.folder, "--addr", w.addr)
	if code != exitFailed || !strings.Contains(out, "create queue a") || !strings.Contains(out, "queue b: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
	q, err := w.c.Queue(t.Context(), "a")
	assert.NoError(t, err)
	assert.Equal(t, q.MaxInFlight, 5, "attempts in flight")
}

// TestApplyKeys makes a key once, with its text in a file of its owner, and refuses other grants.
func TestApplyKeys(t *testing.T) {
	g := newGuarded(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "keys.yaml")
	write := func(role string) {
		text := "kind: namespace\nname: shop\n---\nkind: key\nname: till\nspec: {grants: [{role: " + role +
			", namespace: shop}], expires_at: '2099-01-01T01:00:00+01:00'}\n"
		assert.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("schedule")
	out := g.must(0, g.admin, "apply -f "+file+" --keys "+folder)
	assert.Contains(t, out, "create key till")
	info, err := os.Stat(filepath.Join(folder, "till.key"))
	assert.NoError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600), "mode of the key's file")
	g.must(0, filepath.Join(folder, "till.key"), "task list --namespace shop")
	assert.Contains(t, g.must(0, g.admin, "apply -f "+file), "0 to create, 0 to change, 0 to delete, 2 equal")
	write("operate")
	_, _, err = g.run(0, g.admin, "apply -f "+file+" --keys "+folder)
	if err == nil || !strings.Contains(err.Error(), "keys.yaml:6: spec.grants differs from the key of this name") {
		t.Errorf("other grants: %v", err)
	}
}
