package access

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/access/internal/rolefile"
)

// CertificateRoles maps the names in client certificates to grants. It never changes.
type CertificateRoles struct {
	entries []certificateEntry
}

// certificateEntry is one item of the file. It has exactly one of the names.
type certificateEntry struct {
	CN     string // common name of the subject
	URI    string // the others are alternative names of the subject
	DNS    string
	Email  string
	Grants []Grant

	caller *Caller
}

// LoadCertificateRoles reads a list in YAML or JSON. Each item has one name, as cn, uri, dns or email, and the grants
// of certificates with this name:
//
//	[
//	  {"uri": "spiffe://example.org/billing",
//	   "grants": [{"role": "schedule", "namespace": "billing", "queues": ["invoices*"]}]},
//	  {"cn": "ops-laptop", "grants": [{"role": "admin", "namespace": "*"}]}
//	]
//
// Names are compared byte by byte, except that case does not matter in DNS names. The items with one of a certificate's
// names add up. LoadCertificateRoles refuses a file that others than its owner may change.
func LoadCertificateRoles(path string) (*CertificateRoles, error) {
	var entries []certificateEntry
	if err := rolefile.Read(path, &entries); err != nil {
		return nil, err
	}
	roles, err := newCertificateRoles(entries)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return roles, nil
}

func newCertificateRoles(entries []certificateEntry) (*CertificateRoles, error) {
	if len(entries) == 0 {
		return nil, errors.New("names no certificate")
	}
	seen := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		name, err := e.name()
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		if seen[name] {
			return nil, fmt.Errorf("item %d: %s is there twice", i+1, name)
		}
		seen[name] = true
		if err := CheckGrants(e.Grants); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		e.caller = &Caller{Kind: KindCertificate, ID: name, Name: name, Grants: e.Grants}
	}
	return &CertificateRoles{entries: entries}, nil
}

// name returns the name of an entry with its kind: "cn:ops-laptop".
func (e *certificateEntry) name() (string, error) {
	e.DNS = strings.ToLower(e.DNS)
	found := ""
	for _, n := range [][2]string{{"cn:", e.CN}, {"uri:", e.URI}, {"dns:", e.DNS}, {"email:", e.Email}} {
		if n[1] == "" {
			continue
		}
		if found != "" {
			return "", errors.New("has more than one of cn, uri, dns and email")
		}
		found = n[0] + n[1]
	}
	if found == "" {
		return "", errors.New("has none of cn, uri, dns and email")
	}
	return found, nil
}

// caller returns the caller that a verified certificate names: with the grants of all entries that name it, or with
// none.
func (r *CertificateRoles) caller(cert *x509.Certificate) *Caller {
	var found *Caller
	for i := range r.entries {
		e := &r.entries[i]
		switch {
		case !e.names(cert):
		case found == nil:
			found = e.caller
		default:
			joined := *found
			joined.Grants = slices.Concat(found.Grants, e.Grants)
			found = &joined
		}
	}
	if found == nil {
		found = &Caller{Kind: KindCertificate, ID: cert.Subject.String(), Name: cert.Subject.CommonName}
	}
	return found
}

func (e *certificateEntry) names(cert *x509.Certificate) bool {
	switch {
	case e.CN != "":
		return e.CN == cert.Subject.CommonName
	case e.DNS != "":
		return slices.ContainsFunc(cert.DNSNames, func(n string) bool { return strings.EqualFold(n, e.DNS) })
	case e.Email != "":
		return slices.Contains(cert.EmailAddresses, e.Email)
	}
	for _, u := range cert.URIs {
		if u.String() == e.URI {
			return true
		}
	}
	return false
}
