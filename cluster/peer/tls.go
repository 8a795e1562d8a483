package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/belfryhq/belfry/cluster/peerkeys"
)

// secure wraps every accepted connection in TLS. It returns the name of the node at the other end, "" without keys.
func (e *Endpoint) secure(conn net.Conn) (net.Conn, string, error) {
	if e.cfg.Keys == nil {
		return conn, "", nil
	}
	present := e.cfg.Keys.Credentials()
	secured := tls.Server(conn, &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{present.Cert},
		ClientCAs:    present.Roots,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	})
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.HeaderTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, "", err
	}
	name, err := peerkeys.NodeName(secured.ConnectionState().PeerCertificates[0])
	if err != nil {
		return nil, "", &certificateError{err}
	}
	return secured, name, nil
}

// certificateError is the error of a connection whose other end has shown a certificate that no node may have.
type certificateError struct{ err error }

func (e *certificateError) Error() string { return e.err.Error() }
func (e *certificateError) Unwrap() error { return e.err }

// isCertificateRefused reports whether this node has refused the certificate of the other end.
func isCertificateRefused(err error) bool {
	var own *certificateError
	var library *tls.CertificateVerificationError
	return errors.As(err, &own) || errors.As(err, &library)
}

// dial connects to an address and wraps the connection in TLS.
func (e *Endpoint) dial(ctx context.Context, target Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.DialTimeout)
	defer cancel()
	conn, err := e.cfg.Network.Dial(ctx, target.Addr)
	if err != nil || e.cfg.Keys == nil {
		return conn, err
	}
	secured := tls.Client(conn, clientConfig(e.cfg.Keys.Credentials(), target.Name))
	if err := secured.HandshakeContext(ctx); err != nil {
		if isCertificateRefused(err) {
			e.cfg.Logger.Warn("refused the certificate of a dialled node", "to", target.Addr, "err", err)
		}
		return nil, errors.Join(fmt.Errorf("peer: %s: %w", target.Addr, err), conn.Close())
	}
	return secured, nil
}

// clientConfig returns the configuration of a dialling connection. It verifies certificates in place of crypto/tls: any
// node may answer when a cluster is joined by address, so there is no single name to compare with.
func clientConfig(present *peerkeys.Credentials, name string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{present.Cert},
		InsecureSkipVerify: true, // VerifyConnection verifies the certificate
		VerifyConnection:   func(s tls.ConnectionState) error { return verifyServer(s, present.Roots, name) },
	}
}

func verifyServer(s tls.ConnectionState, roots *x509.CertPool, want string) error {
	leaf := s.PeerCertificates[0]
	opts := x509.VerifyOptions{
		Roots:         roots,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, between := range s.PeerCertificates[1:] {
		opts.Intermediates.AddCert(between)
	}
	if _, err := leaf.Verify(opts); err != nil {
		return &certificateError{err}
	}
	name, err := peerkeys.NodeName(leaf)
	if err != nil {
		return &certificateError{err}
	}
	if want != "" && !strings.EqualFold(name, want) {
		return fmt.Errorf("the certificate is node %q's, not %q's", name, want) // another node is at this address now
	}
	return nil
}
