package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/imports"
	"github.com/belfryhq/belfry/internal/assert"
)

// file writes a file of the test, and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// importing runs belfry import in a namespace of the shared node, and returns its totals, its messages and its status.
func importing(t *testing.T, addr string, args ...string) (totals imports.Totals, said string, code int) {
	t.Helper()
	out, code := belfry(t, append([]string{"import"}, append(args, "--addr", addr, "--json")...)...)
	for line := range strings.Lines(out) {
		if json.Unmarshal([]byte(line), &totals) != nil {
			said += line
		}
	}
	return totals, said, code
}

// A repeated import finds its tasks. The troubles are named, and are in the file of rejects with their records.
func TestImportNDJSON(t *testing.T) {
	addr, c, _ := inNamespace(t)
	lines := file(t, `{"id": "a", "fire_at": "2040-01-01T00:00:00Z", "payload": {"n": 1}}
{"id": "b", "fire_at": "2040-01-01T00:00:00Z", "queue": "no name"}
{"id": "c", "fire_at": "never"}
`)
	rejects := filepath.Join(t.TempDir(), "rejects")
	args := []string{"ndjson", lines, "--prefix", "shop:", "--queue", "orders", "--rejects", rejects}

	totals, said, code := importing(t, addr, append(args, "--dry-run")...)
	assert.Equal(t, code, exitFailed)
	assert.Equal(t, totals, imports.Totals{Read: 3, Scheduled: 2, Refused: 1})
	assert.Contains(t, said, `line 1: shop:a, 2040-01-01 00:00:00.000 UTC, queue orders: {"n": 1}`)
	for _, want := range []imports.Totals{{Read: 3, Scheduled: 1, Refused: 2}, {Read: 3, Existing: 1, Refused: 2}} {
		totals, said, code = importing(t, addr, args...)
		assert.Equal(t, code, exitFailed)
		assert.Equal(t, *totals.Verified, imports.Verification{Same: 1})
		totals.Verified = nil
		assert.Equal(t, totals, want)
		assert.Contains(t, said, "line 2: 400 queue")
		assert.Contains(t, said, "line 3: fire_at")
		text, err := os.ReadFile(rejects)
		assert.NoError(t, err)
		assert.Equal(t, strings.Count(string(text), "\n"), 2)
		assert.Contains(t, string(text), `{"key":"line 2","id":"shop:b","reason":"400 queue`)
		assert.Contains(t, string(text), `"text":"{\"id\": \"c\", \"fire_at\": \"never\"}"`)
	}
	_, err := c.Cancel(t.Context(), "shop:a")
	assert.NoError(t, err)
	totals, _, _ = importing(t, addr, append(args, "--verify", "only")...)
	assert.Equal(t, *totals.Verified, imports.Verification{Same: 1, Missing: 1}, "a cancelled task is there")
}

func TestImportTables(t *testing.T) {
	addr, c, _ := inNamespace(t)
	totals, said, code := importing(t, addr, "csv", file(t, "job,at\n7,2209024800\n"), "--map", "id=job,due=at", "--verify", "never")
	assert.Equal(t, totals, imports.Totals{Read: 1, Scheduled: 1}, "%s", said)
	assert.Equal(t, code, 0)
	task, err := c.Get(t.Context(), "7")
	assert.NoError(t, err)
	assert.Equal(t, task.FireAt.Year(), 2040)
	totals, said, code = importing(t, addr, "crontab", file(t, "5 4 * * * root run\n"), "--system", "--tz", "Asia/Tokyo")
	assert.Equal(t, code, 0, "%s", said)
	assert.Equal(t, totals.Scheduled, 1)
	assert.Equal(t, totals.Verified.Same, 1)
}

func TestImportMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"ndjson /no/such/file":                           "no such file",
		"ndjson --verify often":                          `--verify is "often": after, only or never`,
		"ndjson --per-second -1":                         "--per-second is -1",
		"ndjson --dry-run --verify only":                 "--dry-run reads no task",
		"asynq redis://127.0.0.1:1 --move --verify only": "--move takes tasks out",
		"csv --unit min":                                 `--unit is "min": s, ms or auto`,
		"redis redis://127.0.0.1:1/0":                    "KEY is missing",
		"sidekiq http://127.0.0.1:1/0":                   "the URL is not like redis://host:6379/0",
		"river postgres://127.0.0.1:1":                   "the URL is not like postgres://user@host:5432/database",
		"quartz mysql://127.0.0.1:1/d --table x'y":       "the name of the table has other characters",
		"celery redis://127.0.0.1:1/0 --target x":        "the URL is not like redis://host:6379/0",
		"rabbitmq amqp://127.0.0.1:1/ q --move":          "--exchange is missing",
		"rabbitmq amqp://127.0.0.1:1/ q --exchange x":    "cannot be copied",
		"rabbitmq redis://h/ q --exchange x --dry-run":   "the URL is not like amqp://host:5672/vhost",
	} {
		out, code := belfry(t, append([]string{"import"}, strings.Fields(args)...)...)
		if code == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d, want %q:\n%s", args, code, want, out)
		}
	}
	t.Setenv(importPassword, "secret")
	out, code := belfry(t, "import", "sidekiq", "redis://user:hidden@127.0.0.1:1/0")
	if code != exitFailed || strings.Contains(out, "secret") || strings.Contains(out, "hidden") || !strings.Contains(out, "127.0.0.1:1") {
		t.Errorf("%d\n%s", code, out)
	}
}
