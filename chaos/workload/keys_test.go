package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/assert"
)

// service is a fake of the calls that a Keeper makes. It takes all keys that were made and not revoked.
type service struct {
	mu    sync.Mutex        // guards the fields below
	texts map[string]string // key ids by text
	names map[string]string // names by key id
	made  int
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	id, known := s.texts[text]
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case text == "admin":
		s.administer(w, r, parts)
	case !known:
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodPut:
		w.WriteHeader(http.StatusForbidden)
	case parts[1] == "namespaces" && parts[2] == "neighbour" && s.names[id] != "r1-key-2":
		w.WriteHeader(http.StatusNotFound)
	case parts[1] == "whoami":
		_, _ = fmt.Fprint(w, "{}")
	default:
		_, _ = fmt.Fprint(w, `{"tasks":[{"id":"r1-1","payload":{"op":7}}],"next_cursor":null}`)
	}
}

func (s *service) administer(w http.ResponseWriter, r *http.Request, parts []string) {
	switch {
	case parts[1] == "keys" && r.Method == http.MethodGet:
		var all []map[string]any
		for id, name := range s.names {
			all = append(all, map[string]any{"id": id, "name": name})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": all})
	case r.Method == http.MethodDelete:
		for text, id := range s.texts {
			if id == parts[2] {
				delete(s.texts, text)
			}
		}
		delete(s.names, parts[2])
	case r.Method == http.MethodPost:
		s.made++
		id, text := fmt.Sprint("id", s.made), fmt.Sprint("secret", s.made)
		if len(parts) > 2 {
			id = parts[2]
		} else {
			var asked struct{ Name string }
			_ = json.NewDecoder(r.Body).Decode(&asked)
			s.names[id] = asked.Name
		}
		s.texts[text] = id
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"id":%q,"name":%q,"key":%q}`, id, s.names[id], text)
	case len(parts) == 2:
		_, _ = fmt.Fprint(w, `{"namespaces":[{"name":"neighbour"}]}`)
	default:
		_, _ = fmt.Fprintf(w, `{"name":%q}`, parts[2])
	}
}

// TestRecordOfKeys takes a key through its life. The record has each change, each trial with its answer, and each list.
// It has no text of a key.
func TestRecordOfKeys(t *testing.T) {
	fake := &service{texts: map[string]string{}, names: map[string]string{}}
	server := httptest.NewServer(fake)
	defer server.Close()
	dir := t.TempDir()
	admin := filepath.Join(dir, "admin")
	var written strings.Builder
	rec := history.NewRecorder(&written)
	assert.NoError(t, os.WriteFile(admin, []byte("admin\n"), 0o600))
	ctx := t.Context()
	k, err := OpenKeys(ctx, KeeperConfig{
		Nodes: []Node{{Name: "node-1", URL: server.URL}, {Name: "node-2", URL: server.URL}},
		Spare: func() []string { return []string{"node-2"} }, AdminFile: admin,
		Namespaces: []string{"", "neighbour"}, Recorder: rec, Dir: dir, Prefix: "r1-", Calm: time.Second,
	})
	assert.NoError(t, err)
	for _, namespace := range []string{"", "neighbour"} {
		info, err := os.Stat(k.File(namespace))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key of the load in %q: %v, %v", namespace, info, err)
		}
	}
	first, err := k.create(ctx, "", nil, "read")
	assert.NoError(t, err)
	k.everywhere(ctx, func(ctx context.Context, n Node) { k.tryAll(ctx, n, "", first) })
	second, err := k.rotate(ctx, first, "", 0)
	assert.NoError(t, err)
	k.lists(ctx)
	assert.NoError(t, k.revoke(ctx, second))
	k.everywhere(ctx, func(ctx context.Context, n Node) { k.tryAll(ctx, n, "", second) })
	k.visit(ctx)
	if err := k.Close(ctx); err != nil || len(fake.names) != 0 {
		t.Errorf("closed with %v; %v are left", err, fake.names)
	}
	if err := rec.Close(); err != nil || strings.Contains(written.String(), "secret") {
		t.Errorf("%v, or a secret in the record: %s", err, &written)
	}
	check(t, rec.History(), first, second)
}

func check(t *testing.T, h *history.History, first, second *text) {
	t.Helper()
	got := map[string][]int{}
	for _, trial := range h.Trials {
		if trial.Node != "node-1" {
			t.Errorf("a trial at %s, which is not in the cluster", trial.Node)
		}
		got[trial.Ask] = append(got[trial.Ask], trial.Status)
	}
	want := map[string][]int{"own": {200, 401}, "beyond": {403, 401}, "foreign": {404, 401}, "nothing": {401}}
	assert.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "trials")
	old, fresh := h.Entries[first.entry], h.Entries[second.entry]
	if old.ID != fresh.ID || !old.Rotated || fresh.Rotated || old.Ended < old.Ending || fresh.Ended < fresh.Ending ||
		old.Ending == 0 || fresh.Ending == 0 {
		t.Errorf("%+v, then %+v", old, fresh)
	}
	lists := map[string]int{}
	for _, roll := range h.Rolls {
		lists[roll.Kind] += len(roll.IDs) + len(roll.Wrote)
	}
	if want := map[string]int{"keys": 3, "namespaces": 1, "tasks": 2}; fmt.Sprint(lists) != fmt.Sprint(want) {
		t.Errorf("lists %v, want %v", lists, want)
	}
}
