package delivery

import (
	"crypto/tls"
	"errors"
	"net"
)

// Describe returns a text for last_error of a connection's error: one short line, without this node's addresses.
// Package broker uses it, for example.
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
