package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// handshakeError marks an error after the TCP connect and before the end of the TLS handshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// errnoTexts words the operating system's errors. Go's own texts contain this node's addresses, and last_error is
// public to callers.
var errnoTexts = []struct {
	errno syscall.Errno
	text  string
}{
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.ECONNRESET, "connection reset by the receiver"},
	{syscall.EPIPE, "connection reset by the receiver"},
	{syscall.EHOSTUNREACH, "no route to the receiver"},
	{syscall.ENETUNREACH, "no route to the receiver"},
	{syscall.EADDRNOTAVAIL, "this node has no free port for a connection"},
	{syscall.EMFILE, "this node has too many open connections"},
	{syscall.ENFILE, "this node has too many open connections"},
}

// describe returns a text for last_error of an exchange that ended early and without a reply.
func (x *exchange) describe(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return lookupText(dns)
	}
	if x.phase() == connecting && isTimeout(err) {
		return timedOut(x.connectTimeout, connecting)
	}
	for _, known := range errnoTexts {
		if errors.Is(err, known.errno) {
			return known.text
		}
	}
	var handshake *handshakeError
	if errors.As(err, &handshake) {
		return handshakeText(handshake.err)
	}
	return x.phase().fault()
}

// fault returns the text for an error in phase p that has no more useful text of its own.
func (p phase) fault() string {
	switch p {
	case connecting:
		return "could not connect"
	case answering:
		return fmt.Sprintf("malformed answer, or one with a header over %d KiB", maxReplyHeader>>10)
	default:
		return "the receiver closed the connection without an answer"
	}
}

func timedOut(after time.Duration, p phase) string {
	doing := map[phase]string{
		connecting: "connecting", sending: "sending", waiting: "waiting for the answer", answering: "reading the answer",
	}
	return fmt.Sprintf("timed out after %s (%s)", after, doing[p])
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// lookupText words a DNS error. It leaves out the name server's address.
func lookupText(err *net.DNSError) string {
	name := printable([]byte(err.Name), maxExcerpt)
	switch {
	case err.IsNotFound:
		return "no such host: " + name
	case err.IsTimeout:
		return "timed out looking up " + name
	}
	return "could not look up " + name
}

func handshakeText(err error) string {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return "TLS: certificate refused: " + printable([]byte(untrusted.Err.Error()), maxExcerpt)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "TLS: the receiver closed the connection in the handshake"
	}
	var op *net.OpError // an alert from the receiver, or addresses around another error
	if errors.As(err, &op) {
		err = op.Err
	}
	return "TLS handshake failed: " + printable([]byte(err.Error()), maxExcerpt)
}
