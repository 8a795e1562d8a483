package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// Dialer opens connections that a Guard allows, for other ways to deliver than by HTTP. What it dials ends with the
// context it is given.
type Dialer struct{ dialer }

// NewDialer returns a Dialer; a nil resolver is Go's own.
func NewDialer(guard *Guard, resolver *net.Resolver) *Dialer {
	if resolver == nil {
		resolver = &net.Resolver{PreferGo: true}
	}
	d := &Dialer{dialer{guard: guard}}
	d.net = net.Dialer{Resolver: resolver, ControlContext: d.control}
	return d
}

// DialContext opens a TCP connection.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.connect(ctx, network, addr)
}

// DialTLSContext opens a TLS connection to the host that addr names.
func (d *Dialer) DialTLSContext(ctx context.Context, network, addr string, cfg *tls.Config) (net.Conn, error) {
	return d.connectTLS(ctx, network, addr, cfg)
}

// Refused tells whether a dial failed because the Guard refuses each address it could have led to.
func Refused(err error) bool {
	var refused *refusedError
	return errors.As(err, &refused)
}

// Describe words an error of a connection for last_error: in one short line, and without this node's addresses.
func Describe(err error) string {
	var refused *refusedError
	var dns *net.DNSError
	var handshake *handshakeError
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		return refused.Error()
	}
	if errors.As(err, &dns) {
		return lookupText(dns)
	}
	for _, known := range errnoTexts {
		if errors.Is(err, known.errno) {
			return known.text
		}
	}
	if errors.As(err, &handshake) {
		return handshakeText(handshake.err)
	}
	if errors.As(err, &untrusted) {
		return handshakeText(untrusted)
	}
	return printable([]byte(err.Error()), maxExcerpt)
}
