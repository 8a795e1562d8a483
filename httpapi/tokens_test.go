package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestJoinTokens(t *testing.T) {
	h := newHarness(t)
	r := h.call("GET", "/v1/nodes/tokens", "").json(t)
	assert.Equal(t, fmt.Sprint(r["tokens"]), "[]", "no tokens: %v", r)
	made := h.call("POST", "/v1/nodes/tokens?valid_for=1.5d", "")
	if made.StatusCode != 201 || made.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", made.StatusCode, made.Header)
	}
	for name, want := range map[string]any{
		"token": "belfry-join-secret", "required": true, "id": "kq3v7d2a", "created_at": "2026-11-21T10:00:00Z",
		"expires_at": "2026-11-22T22:00:00Z",
	} {
		assert.Equal(t, made.json(t)[name], want, "%s", name)
	}
	again := h.call("POST", "/v1/nodes/tokens", "{}").json(t)
	assert.Equal(t, again["expires_at"], "2026-11-21T11:00:00Z", "the usual life: %v", again)
	if listed := h.call("GET", "/v1/nodes/tokens", "").text; !strings.Contains(listed, "kq3v7d2a") ||
		strings.Contains(listed, "secret") {
		t.Errorf("listed %v", listed)
	}
}

func TestJoinTokensAreDocumented(t *testing.T) {
	d := newDocumented(t)
	d.created("POST", "/v1/nodes/tokens?valid_for=1h", "")
	d.ok("GET", "/v1/nodes/tokens", "")
	d.call(http.StatusNoContent, "DELETE", "/v1/nodes/tokens/kq3v7d2a", "")
	d.notFound("DELETE", "/v1/nodes/tokens/kq3v7d2a", "")
	d.badRequest("POST", "/v1/nodes/tokens?valid_for=soon", "")
	d.unsupportedType("POST", "/v1/nodes/tokens", "{}", "Content-Type", "text/plain")
	for err, status := range map[error]int{
		task.ErrNotProposed: 503, task.ErrUnknown: 504, &task.FieldError{Field: "tokens", Limit: "100"}: 400,
	} {
		d.fake.readErr = err
		d.call(status, "POST", "/v1/nodes/tokens", "")
		d.call(status, "DELETE", "/v1/nodes/tokens/x", "")
	}
}

func TestLifeOfJoinTokens(t *testing.T) {
	h := newHarness(t)
	for _, life := range []string{"soon", "59s", "31d", "-1h"} {
		p := h.call("POST", "/v1/nodes/tokens?valid_for="+life, "").mustProblem(t, 400, "valid_for")
		assert.Equal(t, p["limit"], "1m to 30d", "%s: %v", life, p)
	}
	h.call("POST", "/v1/nodes/tokens", `{"valid_for":"1h"}`).mustProblem(t, 400, "valid_for")
}
