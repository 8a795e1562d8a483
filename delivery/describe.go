package delivery

import (
	"crypto/tls"
	"errors"
	"net"
)

// Describe words an error of a connection for last_error: in one short line, and without this node's addresses. It is
// for other ways to deliver than by HTTP.
func Describe(err error) string {
	var dns *net.DNSError
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &dns) {
		return lookupText(dns)
	}
	for _, known := range errnoTexts {
		if errors.Is(err, known.errno) {
			return known.text
		}
	}
	if errors.As(err, &untrusted) {
		return handshakeText(untrusted)
	}
	return printable([]byte(err.Error()), maxExcerpt)
}
