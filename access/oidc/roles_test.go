package oidc

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/internal/assert"
)

func loggerTo(log *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(log, nil)) }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

const mapping = `
name: [profile, nick]
rules:
  - claim: [realm_access, roles]
    values: [belfry-admin]
    grants: [{role: admin, namespace: "*"}]
  - claim: groups
    values: ["team-*", "42", "true"]
    namespaces: https://example.org/namespaces
    grants:
      - {role: schedule, queues: ["orders*"]}
      - {role: read, namespace: shared}
  - claim: scope
    values: [belfry.consume]
    grants: [{role: consume, namespace: shop, ids: [a]}]
`

func TestClaimsGiveGrants(t *testing.T) {
	roles := loadRoles(t, mapping)
	admin := access.Grant{Role: access.Admin, Namespace: "*"}
	shared := access.Grant{Role: access.Read, Namespace: "shared"}
	consume := access.Grant{Role: access.Consume, Namespace: "shop", IDs: []string{"a"}}
	in := func(namespace string) access.Grant {
		return access.Grant{Role: access.Schedule, Namespace: namespace, Queues: []string{"orders*"}}
	}
	cases := []struct {
		claims string
		want   []access.Grant
	}{
		{`{}`, nil},
		{`{"realm_access": {"roles": ["a", "belfry-admin"]}}`, []access.Grant{admin}},
		{`{"realm_access": {"roles": "belfry-admin"}}`, []access.Grant{admin}},
		{`{"realm_access": {"roles": ["belfry-admin2", "Belfry-admin", ["belfry-admin"], {"belfry-admin": 1}, null]}}`, nil},
		{`{"realm_access": ["belfry-admin"]}`, nil},
		{`{"realm_access.roles": ["belfry-admin"]}`, nil},
		{`{"groups": "team-a"}`, []access.Grant{shared}},
		{`{"groups": 42}`, []access.Grant{shared}},
		{`{"groups": true}`, []access.Grant{shared}},
		{`{"groups": [42.0, false, "team"]}`, nil},
		{`{"groups": ["team-"], "https://example.org/namespaces": ["shop", "mail"]}`, []access.Grant{shared, in("shop"), in("mail")}},
		{`{"groups": ["team-a"], "https://example.org/namespaces": "shop"}`, []access.Grant{shared, in("shop")}},
		{`{"groups": ["x"], "https://example.org/namespaces": "shop"}`, nil},
		{`{"groups": ["team-a"], "https://example.org/namespaces": ["*", "", "Shop", "a*", "shop "]}`, []access.Grant{shared}},
		{`{"scope": "openid belfry.consume"}`, []access.Grant{consume}},
		{`{"scope": ["openid", "belfry.consume"]}`, []access.Grant{consume}},
		{`{"scope": "openid belfry.consumer"}`, nil},
		{`{"scope": "belfry.consume", "realm_access": {"roles": "belfry-admin"}}`, []access.Grant{admin, consume}},
	}
	for _, c := range cases {
		got, err := roles.grants(parsed(t, c.claims))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.claims, err, diff)
		}
	}
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	claims, _, err := parseClaims([]byte(text))
	assert.NoError(t, err)
	return claims
}

func TestTokensGiveBoundedGrants(t *testing.T) {
	roles := loadRoles(t, mapping)
	claimsOf := func(n int) map[string]any {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("n", i))
		}
		text, err := json.Marshal(map[string]any{"groups": "team-a", "https://example.org/namespaces": names})
		assert.NoError(t, err)
		return parsed(t, string(text))
	}
	if grants, err := roles.grants(claimsOf(maxTokenGrants - 1)); err != nil || len(grants) != maxTokenGrants {
		t.Errorf("%d grants: %v", len(grants), err)
	}
	_, err := roles.grants(claimsOf(maxTokenGrants))
	assert.Error(t, err, "a token with more grants than the limit")
	w := newWorld(t)
	i := newIssuer(t, w, mapping)
	assert.NoError(t, i.connect(t.Context()))
	refuses(t, i, w.signer.sign(t, "", claims(claimsOf(maxTokenGrants))),
		refusal(access.Malformed, "the claims of the token give more than 200 grants"))
}

func TestNameOfCaller(t *testing.T) {
	roles := loadRoles(t, mapping)
	cases := map[string]string{
		`{"profile": {"nick": "jane"}}`:                             "jane",
		`{"profile": {"nick": ["", "jane"]}}`:                       "jane",
		`{"profile": {"nick": "a\nb"}}`:                             "subject",
		`{"profile": {"nick": "` + strings.Repeat("j", 101) + `"}}`: "subject",
		`{"nick": "jane"}`:                                          "subject",
	}
	for text, want := range cases {
		assert.Equal(t, roles.name(parsed(t, text), "subject"), want, "%s", text)
	}
}

func TestFilesOfRolesThatAreRefused(t *testing.T) {
	const grants = "grants: [{role: read, namespace: a}]"
	rule := func(text string) string { return "rules: [{" + text + "}]" }
	cases := map[string]string{ // from a part of the error
		"is empty":                              "",
		"rules: has 0 rules":                    "name: a",
		"rules: has 201 rules":                  "rules: [" + strings.Repeat("{claim: a},", 201) + "]",
		"rules[0].claim: is empty":              rule("values: [a], " + grants),
		"rules[0].claim: is empty ":             rule("claim: [a, ''], values: [a], "+grants) + " #",
		"rules[0].values: has 0 values":         rule("claim: a, " + grants),
		"rules[0].values: has 101 values":       rule("claim: a, values: [" + strings.Repeat("a,", 101) + "], " + grants),
		"rules[0].values[0]: is empty":          rule("claim: a, values: ['']," + grants),
		"rules[0].values[1]: is empty, or has":  rule("claim: a, values: [b, 'a*b']," + grants),
		"rules[0].grants: has 0 grants":         rule("claim: a, values: [a]"),
		"rules[0].grants[0].namespace: is empt": rule("claim: a, values: [a], grants: [{role: read}]"),
		"rules[0].namespaces: each grant names": rule("claim: a, values: [a], namespaces: b, " + grants),
		"is no role":                            rule("claim: a, values: [a], grants: [{role: root, namespace: a}]"),
		"field value not found":                 rule("claim: a, value: [a], " + grants),
		"cannot unmarshal":                      rule("claim: {a: b}, values: [a], " + grants),
	}
	for want, content := range cases {
		file := filepath.Join(t.TempDir(), "roles.yaml")
		assert.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		if _, err := LoadRoles(file); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	json := `{"rules": [{"claim": ["a"], "values": ["b"], "grants": [{"role": "read", "namespace": "c"}]}]}`
	assert.Equal(t, len(loadRoles(t, json).file.Rules), 1, "JSON is not read")
}
