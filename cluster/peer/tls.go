package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// NameSuffix ends the DNS name by which a certificate names a node: "n1" + NameSuffix. An authority may issue other
// certificates for a company; only names with this suffix are nodes.
const NameSuffix = ".node.belfry"

// Keys holds the PEM files by which nodes authenticate each other, and the key of their gossip packets.
type Keys struct {
	CertFile, KeyFile string // this node's certificate, as client and as server
	CAFile            string // the authority that signs all nodes' certificates
	Gossip            []byte // key of gossip packets, 32 bytes
}

// tlsConfigs holds the certificate and authority for both directions; each trusts only the cluster's own authority.
type tlsConfigs struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

func (k *Keys) load(nodeName string) (*tlsConfigs, error) {
	if len(k.Gossip) != 32 {
		return nil, fmt.Errorf("the gossip key has %d bytes, not 32", len(k.Gossip))
	}
	cert, err := tls.LoadX509KeyPair(k.CertFile, k.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("node certificate: %w", err)
	}
	pem, err := os.ReadFile(k.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate authority: %s has no certificate", k.CAFile)
	}
	if err := cert.Leaf.VerifyHostname(nodeName + NameSuffix); err != nil {
		return nil, fmt.Errorf("node certificate: %s does not name this node, as %s: %w",
			k.CertFile, nodeName+NameSuffix, err)
	}
	return &tlsConfigs{cert: cert, roots: roots}, nil
}

// secure wraps every accepted connection in TLS. It returns the name of the node at the other end, "" without keys.
func (e *Endpoint) secure(conn net.Conn) (net.Conn, string, error) {
	if e.tls == nil {
		return conn, "", nil
	}
	secured := tls.Server(conn, &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{e.tls.cert},
		ClientCAs:    e.tls.roots,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	})
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.HeaderTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, "", err
	}
	name, err := nodeName(secured.ConnectionState().PeerCertificates[0])
	return secured, name, err
}

// connectTimeout is the limit of a TCP connect: long enough for one lost packet. TCP repeats its packets to an
// unreachable node at longer and longer intervals, so a new attempt finds a returning node sooner.
const connectTimeout = 1500 * time.Millisecond

// dial connects to an address and wraps the connection in TLS.
func (e *Endpoint) dial(ctx context.Context, target Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.DialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", target.Addr)
	if err != nil {
		return nil, err
	}
	if err := endSilence(conn.(*net.TCPConn), e.cfg.Silence); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if e.tls == nil {
		return conn, nil
	}
	secured := tls.Client(conn, e.tls.client(target.Name))
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("peer: %s: %w", target.Addr, err), conn.Close())
	}
	return secured, nil
}

// client returns the configuration of a dialling connection. It verifies certificates in place of crypto/tls: any node
// may answer when a cluster is joined by address, so there is no single name to compare with.
func (c *tlsConfigs) client(name string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{c.cert},
		InsecureSkipVerify: true, // VerifyConnection verifies the certificate
		VerifyConnection:   func(s tls.ConnectionState) error { return c.verifyServer(s, name) },
	}
}

func (c *tlsConfigs) verifyServer(s tls.ConnectionState, want string) error {
	leaf := s.PeerCertificates[0]
	opts := x509.VerifyOptions{
		Roots:         c.roots,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, between := range s.PeerCertificates[1:] {
		opts.Intermediates.AddCert(between)
	}
	if _, err := leaf.Verify(opts); err != nil {
		return err
	}
	name, err := nodeName(leaf)
	if err == nil && want != "" && !strings.EqualFold(name, want) {
		err = fmt.Errorf("the certificate is node %q's, not %q's", name, want)
	}
	return err
}

// nodeName returns the name of the node that a certificate names. A certificate that names none or several is an error.
func nodeName(cert *x509.Certificate) (string, error) {
	found := ""
	for _, dns := range cert.DNSNames {
		name, ok := strings.CutSuffix(strings.ToLower(dns), NameSuffix)
		if !ok {
			continue
		}
		if found != "" || name == "" || strings.ContainsAny(name, ".*") {
			return "", fmt.Errorf("the certificate names not one node: %v", cert.DNSNames)
		}
		found = name
	}
	if found == "" {
		return "", fmt.Errorf("the certificate names no node (a DNS name ending in %s): %v", NameSuffix, cert.DNSNames)
	}
	return found, nil
}
