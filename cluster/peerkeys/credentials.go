package peerkeys

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Credentials are a node's certificate and the authorities that it trusts. They never change.
type Credentials struct {
	Cert  tls.Certificate
	Roots *x509.CertPool

	authorities []*x509.Certificate // those in Roots
	chain       []*x509.Certificate // from the node's certificate to the authority that signed it
}

// parseCredentials returns the credentials in the contents of Cert, Key and CA. They need not be valid now.
func (f Files) parseCredentials(nodeName string, contents [][]byte) (*Credentials, error) {
	c := &Credentials{Roots: x509.NewCertPool()}
	if _, err := ParseCertificates(contents[0]); err != nil {
		return nil, fmt.Errorf("node certificate %s: %w", f.Cert, err)
	}
	var err error
	if c.Cert, err = tls.X509KeyPair(contents[0], contents[1]); err != nil {
		return nil, fmt.Errorf("node certificate %s with the key %s: %w", f.Cert, f.Key, err)
	}
	if c.authorities, err = ParseCertificates(contents[2]); err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", f.CA, err)
	}
	for _, a := range c.authorities {
		c.Roots.AddCert(a)
	}
	if err := c.Cert.Leaf.VerifyHostname(nodeName + NameSuffix); err != nil {
		return nil, fmt.Errorf("node certificate %s does not name this node, as %s: %w", f.Cert, nodeName+NameSuffix, err)
	}
	if c.chain, err = c.findChain(); err != nil {
		return nil, fmt.Errorf("node certificate %s is not from an authority in %s: %w", f.Cert, f.CA, err)
	}
	return c, nil
}

// usages are the two roles of a node in a connection. Its certificate must allow both.
var usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// findChain returns the certificates from the node's own to its authority. The chain must be valid now, or at one end
// of the certificate's time.
func (c *Credentials) findChain() (chain []*x509.Certificate, err error) {
	leaf, between := c.Cert.Leaf, x509.NewCertPool()
	for _, der := range c.Cert.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		between.AddCert(cert)
	}
	var errs []error
	for _, at := range []time.Time{time.Now(), leaf.NotBefore, leaf.NotAfter} {
		for _, usage := range usages {
			chains, verifyErr := leaf.Verify(x509.VerifyOptions{
				Roots: c.Roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: at,
			})
			if err = verifyErr; err != nil {
				break
			}
			chain = chains[0]
		}
		if err == nil {
			return chain, nil
		}
		errs = append(errs, err)
	}
	return nil, errs[0]
}

// Begins returns the first instant at which the whole chain is valid.
func (c *Credentials) Begins() time.Time {
	begins := c.chain[0].NotBefore
	for _, cert := range c.chain[1:] {
		if cert.NotBefore.After(begins) {
			begins = cert.NotBefore
		}
	}
	return begins
}

// Ends returns the last instant at which the whole chain is valid.
func (c *Credentials) Ends() time.Time {
	ends := c.chain[0].NotAfter
	for _, cert := range c.chain[1:] {
		if cert.NotAfter.Before(ends) {
			ends = cert.NotAfter
		}
	}
	return ends
}

// authority returns the authority that signed the node's certificate.
func (c *Credentials) authority() *x509.Certificate { return c.chain[len(c.chain)-1] }

// errNotValid is the error of a certificate that is not valid now.
var errNotValid = errors.New("the certificate is not valid now")

// checkValid returns an error if the chain is not valid at an instant. The text of the error does not depend on the
// instant.
func (c *Credentials) checkValid(now time.Time) error {
	if now.Before(c.Begins()) || now.After(c.Ends()) {
		return fmt.Errorf("%w: it is valid from %s to %s, with its authority", errNotValid,
			c.Begins().UTC().Format(time.RFC3339), c.Ends().UTC().Format(time.RFC3339))
	}
	return nil
}

// mayReplace returns an error if the credentials are not valid and the present ones are.
func (c *Credentials) mayReplace(present *Credentials) error {
	now := time.Now()
	if present.checkValid(now) != nil {
		return nil
	}
	return c.checkValid(now)
}
