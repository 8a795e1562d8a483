package relay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/sqldb"
)

// The statements name the table wherever they name one, and other names are refused.
func TestDDL(t *testing.T) {
	for _, dialect := range []sqldb.Dialect{sqldb.Postgres, sqldb.MySQL} {
		text, err := DDL(dialect, "shop.tasks_out")
		assert.NoError(t, err)
		assert.Contains(t, text, "CREATE TABLE shop.tasks_out (")
		assert.Contains(t, text, " tasks_out_state ")
		if strings.Contains(text, DefaultTable) || strings.Contains(text, "{{") {
			t.Errorf("%s", text)
		}
	}
	for _, table := range []string{"", "a b", "a;b", "a.b.c", "Outbox", "1a", `a"`, strings.Repeat("x", 54)} {
		_, err := DDL(sqldb.Postgres, table)
		assert.Error(t, err, "%q", table)
	}
	_, err := DDL("oracle", DefaultTable)
	assert.Error(t, err)
}

func TestOpen(t *testing.T) {
	for _, url := range []string{"", "redis://db.example/0"} {
		_, err := Open(url, "")
		assert.Error(t, err)
	}
	_, err := Open("postgres://db.example/shop", "a b")
	assert.Error(t, err)
}

// A delay counts from the row's insert, whenever the row is read.
func TestDelay(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 123_456_000, time.UTC)
	task, err := (&row{taskID: "a", task: []byte(`{"delay": "30m"}`), createdAt: at}).read()
	assert.NoError(t, err)
	assert.Equal(t, task.FireAt, at.Add(30*time.Minute))
	assert.Equal(t, task.Delay, 0)
}

// Only an answer about the row itself is final.
func TestJudge(t *testing.T) {
	refused := func(status int, kind string) client.Result {
		return client.Result{Status: status, Err: &client.Error{Status: status, Type: "urn:belfry:problem:" + kind, Detail: "why"}}
	}
	for _, c := range []struct {
		op     string
		result client.Result
		want   verdict
	}{
		{"schedule", client.Result{Status: 201}, verdict{stateRelayed, "created"}},
		{"schedule", client.Result{Status: 200}, verdict{stateRelayed, "replaced"}},
		{"cancel", client.Result{Status: 200, Outcome: "stopped"}, verdict{stateRelayed, "stopped"}},
		{"cancel", refused(404, "task-not-found"), verdict{stateRelayed, "not_found"}},
		{"cancel", refused(404, "namespace-not-found"), verdict{stateWaiting, "404 why"}},
		{"schedule", refused(400, "invalid"), verdict{stateRefused, "400 why"}},
		{"schedule", refused(413, "too-large"), verdict{stateRefused, "413 why"}},
		{"schedule", refused(422, "key-reused"), verdict{stateRefused, "422 why"}},
		{"schedule", refused(403, "quota-exceeded"), verdict{stateRefused, "403 why"}},
		{"schedule", refused(403, "forbidden"), verdict{stateWaiting, "403 why"}},
		{"schedule", refused(401, "unauthenticated"), verdict{stateWaiting, "401 why"}},
		{"schedule", refused(429, "quota-exceeded"), verdict{stateWaiting, "429 why"}},
		{"schedule", refused(503, "no-leader"), verdict{stateWaiting, "503 why"}},
		{"cancel", client.Result{Err: errors.New("broken pipe")}, verdict{stateWaiting, "no answer"}},
	} {
		assert.Equal(t, judge(c.op, &c.result), c.want)
	}
}
