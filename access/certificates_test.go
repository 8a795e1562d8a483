package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func writeFile(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	assert.NoError(t, os.WriteFile(path, []byte(content), mode))
	if err := os.Chmod(path, mode); err != nil { // the umask does not apply
		t.Fatal(err)
	}
	return path
}

const certificateFile = `
# comments are fine
- uri: spiffe://example.org/billing
  grants:
    - {role: schedule, namespace: billing, queues: ["invoices*"], ids: ["inv-*"]}
- cn: Billing
  grants: [{role: read, namespace: "*"}]
- dns: Batch.example.org
  grants: [{role: consume, namespace: batch}]
- email: jane@example.org
  grants: [{role: admin, namespace: "*"}]
`

func loadCertificates(t *testing.T, content string) (*CertificateRoles, error) {
	t.Helper()
	return LoadCertificateRoles(writeFile(t, "roles.yaml", content, 0o644))
}

func TestCertificatesTellTheirCaller(t *testing.T) {
	roles, err := loadCertificates(t, certificateFile)
	assert.NoError(t, err)
	spiffe, err := url.Parse("spiffe://example.org/billing")
	assert.NoError(t, err)
	named := func(cn string) pkix.Name { return pkix.Name{CommonName: cn} }
	cases := []struct {
		cert   x509.Certificate
		id     string
		grants int
	}{
		{x509.Certificate{URIs: []*url.URL{spiffe}}, "uri:spiffe://example.org/billing", 1},
		{x509.Certificate{URIs: []*url.URL{spiffe}, Subject: named("Billing")}, "uri:spiffe://example.org/billing", 2},
		{x509.Certificate{Subject: named("Billing")}, "cn:Billing", 1},
		{x509.Certificate{Subject: named("billing")}, "CN=billing", 0},
		{x509.Certificate{DNSNames: []string{"a.example", "batch.EXAMPLE.org"}}, "dns:batch.example.org", 1},
		{x509.Certificate{EmailAddresses: []string{"jane@example.org"}}, "email:jane@example.org", 1},
		{x509.Certificate{Subject: named("jane@example.org")}, "CN=jane@example.org", 0},
		{x509.Certificate{}, "", 0},
	}
	a := newAuthority(t, Config{Source: newKeys(), Certificates: roles})
	for i, c := range cases {
		caller := passes(t, a, Credentials{Certificate: &c.cert})
		if caller.Kind != KindCertificate || caller.ID != c.id || len(caller.Grants) != c.grants {
			t.Errorf("case %d: got %+v", i, caller)
		}
	}
	billing := passes(t, a, Credentials{Certificate: &cases[1].cert})
	if !billing.Allows(Need{Role: Schedule, Namespace: "billing", Queue: "invoices-eu", ID: "inv-1"}) ||
		!billing.Allows(Need{Role: Read}) || billing.Allows(Need{Role: Schedule}) || len(roles.entries[0].caller.Grants) != 1 {
		t.Errorf("got %+v", billing)
	}
	refuses(t, a, Credentials{}, Missing)
	// The header counts if a call has both.
	refuses(t, a, Credentials{Certificate: &cases[0].cert, Authorization: "Bearer bfy_"}, Malformed)
}

func TestCertificateFilesThatAreRefused(t *testing.T) {
	const grants = "\n  grants: [{role: read, namespace: '*'}]\n"
	cases := map[string]string{ // from a part of the error
		"empty":                                "",
		"names no certificate":                 "[]",
		"item 1: has none of cn":               "- grants: [{role: read, namespace: '*'}]",
		"item 1: has more than one of cn":      "- cn: a\n  dns: b" + grants,
		"item 2: cn:a is there twice":          "- cn: a" + grants + "- cn: a" + grants,
		"item 2: dns:a.b is there twice":       "- dns: a.b" + grants + "- dns: A.B" + grants,
		"cn:a: grants: has 0 grants":           "- cn: a",
		"cn:a: grants[0].namespace: is empty":  "- cn: a\n  grants: [{role: read}]",
		"cn:a: grants[0].role: ":               "- cn: a\n  grants: [{namespace: a}]",
		`"owner" is no role: read, schedule`:   "- cn: a\n  grants: [{role: owner, namespace: a}]",
		"field kn not found":                   "- kn: a" + grants,
		"field queue not found":                "- cn: a\n  grants: [{role: read, namespace: a, queue: b}]",
		"more than one document":               "- cn: a" + grants + "---\n- cn: b" + grants,
		"cannot unmarshal !!map":               "cn: a",
		"grants[0].queues[0]: has a character": "- cn: a\n  grants: [{role: read, namespace: a, queues: ['b c']}]",
	}
	for want, content := range cases {
		if _, err := loadCertificates(t, content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	open := writeFile(t, "open.yaml", certificateFile, 0o664)
	if _, err := LoadCertificateRoles(open); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a file that others may change: %v", err)
	}
	_, err := LoadCertificateRoles(open + ".absent")
	assert.Error(t, err, "a file that does not exist")
	large := writeFile(t, "large.yaml", certificateFile+strings.Repeat("#", 1<<20), 0o644)
	if _, err := LoadCertificateRoles(large); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a long file: %v", err)
	}
	json := `[{"cn": "a", "grants": [{"role": "operate", "namespace": "a"}]}]`
	if roles, err := loadCertificates(t, json); err != nil || roles.entries[0].Grants[0].Role != Operate {
		t.Errorf("JSON: %v", err)
	}
}
