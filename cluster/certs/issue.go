package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/peerkeys"
)

// The default validity of certificates.
const (
	DefaultNodeValidity      = 365 * 24 * time.Hour
	DefaultAuthorityValidity = 10 * 365 * 24 * time.Hour
)

// early is the time by which a certificate's validity begins before the instant of its making, for nodes whose clocks
// are behind.
const early = time.Hour

// authority signs the certificates of nodes.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(validity time.Duration) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Belfry authority of " + now.UTC().Format("2006-01-02 15:04:05")},
		NotBefore: now.Add(-early), NotAfter: now.Add(validity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// issue makes a node's certificate and private key, both as PEM. The certificate does not outlast the authority.
func (a *authority) issue(n Node, validity time.Duration) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, a.template(n, validity), a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of %s: %w", n.Name, err)
	}
	keyPEM, err = encodeKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: der}), keyPEM, err
}

// The types of PEM blocks.
const (
	certType = "CERTIFICATE"
	keyType  = "PRIVATE KEY"
)

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der}), nil
}

func (a *authority) template(n Node, validity time.Duration) *x509.Certificate {
	now := time.Now()
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: n.Name},
		DNSNames: []string{n.Name + peerkeys.NameSuffix},
		KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		},
		NotBefore: latest(now.Add(-early), a.cert.NotBefore),
		NotAfter:  earliest(now.Add(validity), a.cert.NotAfter),
	}
	for _, host := range n.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

// nodeOf returns the node of a certificate that issue has made. Its names come before its IP addresses.
func nodeOf(cert *x509.Certificate) (Node, error) {
	if _, err := peerkeys.NodeName(cert); err != nil {
		return Node{}, err
	}
	n := Node{Name: cert.Subject.CommonName}
	for _, name := range cert.DNSNames {
		if !strings.HasSuffix(strings.ToLower(name), peerkeys.NameSuffix) {
			n.Hosts = append(n.Hosts, name)
		}
	}
	for _, ip := range cert.IPAddresses {
		n.Hosts = append(n.Hosts, ip.String())
	}
	return n, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
