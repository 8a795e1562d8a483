package oidc

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/internal/assert"
)

// FuzzJWT sends any text as a token. Only the header and the claims that the issuer signed make a caller, and no
// refusal repeats the token.
func FuzzJWT(f *testing.F) {
	w := newWorld(f)
	// All processes of the fuzzer, and all runs with one cache, have the same key and the same good token.
	w.signer = &signer{id: "first", alg: jose.EdDSA, private: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	w.keys = []jose.JSONWebKey{w.signer.public()}
	i := newIssuer(f, w, roleText)
	assert.NoError(f, i.connect(f.Context()))
	payload := claims(map[string]any{"exp": int64(4102444800)}) // in the year 2100
	good := w.signer.sign(f, "JWT", payload)
	parts := strings.Split(good, ".")
	for _, seed := range []string{
		good, parts[0] + "." + parts[1] + ".", "eyJhbGciOiJub25lIn0." + parts[1] + ".", "eyJhbGciOiJIUzI1NiJ9." + parts[1] + ".AAAA",
		newSigner(f, "first").sign(f, "", payload), newSigner(f, "other").sign(f, "", payload), "", "..", "e30.e30.e30", good + ".",
		good[1:], good[:len(good)-1], "\x00.\xff.", good + "\n", strings.Replace(good, ".", "..", 1),
		`{"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		caller, _, err := i.Caller(t.Context(), token)
		assert.MustEqual(t, sameText(token, good), err == nil, "the token %q: %v, %v", token, caller, err)
		checkRefusal(t, err, token)
	})
}

// sameText reports whether two tokens have the same parts. Several texts of base64 have the same bytes.
func sameText(a, b string) bool {
	aParts, bParts := strings.Split(a, "."), strings.Split(b, ".")
	return slices.EqualFunc(aParts, bParts, func(x, y string) bool {
		xRaw, xErr := base64.RawURLEncoding.DecodeString(x)
		yRaw, yErr := base64.RawURLEncoding.DecodeString(y)
		return xErr == nil && yErr == nil && string(xRaw) == string(yRaw)
	})
}

func checkRefusal(t *testing.T, err error, token string) {
	t.Helper()
	var refusal *access.Refusal
	switch {
	case err == nil:
	case !errors.As(err, &refusal) || refusal.Kind != access.Malformed && refusal.Kind != access.Unknown:
		t.Fatalf("the token %q: %v", token, err)
	case len(token) > 20 && strings.Contains(err.Error(), token[len(token)-20:]):
		t.Fatalf("the refusal repeats the token: %v", err)
	}
}

// FuzzClaims signs any claims. They never give more than the rules: no namespace that is none, and no other role.
func FuzzClaims(f *testing.F) {
	w := newWorld(f)
	i := newIssuer(f, w, `
name: n
rules:
  - {claim: g, values: ["*"], namespaces: ns, grants: [{role: schedule, queues: ["orders*"]}]}
  - {claim: [a, b], values: [c], grants: [{role: read, namespace: shared}]}
`)
	assert.NoError(f, i.connect(f.Context()))
	f.Add(`"g": "x", "ns": ["*", "shop"], "a": {"b": ["c"]}, "n": "jane"`)
	f.Add(`"g": 1, "ns": "default", "nbf": 0`)
	f.Add(`"g": true, "ns": {"*": "*"}, "nbf": -1e400`)
	f.Add(`"aud": "other", "sub": "a", "exp": 0`)
	f.Add(`"n": "\u0000", "_claim_names": {"a": "b"}, "_claim_sources": {}`)
	f.Fuzz(func(t *testing.T, members string) {
		payload := `{"iss": "` + issuerURL + `", "aud": "belfry", "sub": "jane", "exp": 4102444800, ` + members + `}`
		if !json.Valid([]byte(payload)) {
			return
		}
		key := jose.SigningKey{Algorithm: w.signer.alg, Key: w.signer.private}
		token := sign(t, key, "first", "", []byte(payload))
		caller, until, err := i.Caller(t.Context(), token)
		checkRefusal(t, err, token)
		if err == nil {
			checkCaller(t, caller, until)
		}
	})
}

func checkCaller(t *testing.T, caller *access.Caller, until time.Time) {
	t.Helper()
	if caller.ID == "" || caller.Name == "" || len(caller.Grants) > maxTokenGrants || time.Until(until) > remembered {
		t.Fatalf("got %+v until %v", caller, until)
	}
	for _, g := range caller.Grants {
		shared := g.Role == access.Read && g.Namespace == "shared" && g.Queues == nil
		own := g.Role == access.Schedule && access.CheckNamespace("", g.Namespace) == nil && slices.Equal(g.Queues, []string{"orders*"})
		if !shared && !own {
			t.Fatalf("the grant %+v", g)
		}
	}
}
