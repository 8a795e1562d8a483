package httpapi

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/internal/assert"
)

// Anyone reads the public keys, also where calls need credentials. While the node knows none, nobody keeps the answer.
func TestKeySetIsOpen(t *testing.T) {
	h := newHarness(t, withAccess)
	a := h.call("GET", origin.KeySetPath, "")
	a.mustStatus(t, 200)
	assert.Equal(t, a.text, string(h.fake.keySet)+"\n")
	assert.Equal(t, a.Header.Get("Cache-Control"), "public, max-age=300")
	h.fake.keySet = nil
	a = h.call("GET", origin.KeySetPath, "")
	a.mustProblem(t, 503, "")
	assert.Equal(t, a.Header.Get("Cache-Control"), "no-store")
	h.call("PUT", origin.KeySetPath, "{}").mustProblem(t, 405, "")
}

// Only an admin of the whole cluster rotates the keys of tokens.
func TestJWTKeysRotate(t *testing.T) {
	h := newHarness(t, withAccess)
	const path = "/v1/cluster/jwt-keys/rotate"
	for caller, status := range map[string]int{"admin@a": 403, "operate@*": 403, "": 401} {
		h.as(caller, "POST", path, "").mustStatus(t, status)
	}
	for body, overlap := range map[string]string{"": "11:00:00.00025Z", `{"overlap":"2d"}`: "10:00:00.00025Z"} {
		keys := h.as("admin@*", "POST", path, body).mustStatus(t, 200)["keys"].([]any)
		assert.Equal(t, len(keys), 2)
		assert.Contains(t, fmt.Sprint(keys[0]), overlap)
		assert.Contains(t, fmt.Sprint(keys[1]), "ends_at:<nil>")
	}
	h.as("admin@*", "POST", path, `{"overlap":"1s"}`).mustProblem(t, 400, "overlap")
	h.as("admin@*", "POST", path, `{"overlap":1}`).mustProblem(t, 400, "overlap")
	h.as("admin@*", "POST", path, `{"lap":"1s"}`).mustProblem(t, 400, "lap")
}
