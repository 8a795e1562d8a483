// Package port secures the port at which a node serves callers: its certificate, its connections, and the address of a
// caller behind a proxy.
//
//	Certificates   the files of the certificate and of the callers' authorities, read again while the node runs
//	Secure         a listener of TLS connections, and of plain ones from loopback if these are allowed
//	Forwarded      a handler that sees the address of the caller, and not that of the proxy
//
// # TLS
//
//   - TLS 1.2 at least, 1.3 where the caller has it, and HTTP/2 by ALPN.
//   - The certificate with its key is one value of package reload, and the callers' authorities another. New files are
//     in use for new connections within seconds, and connections that are open go on.
//   - Callers may show a certificate, and a node with authorities verifies it. A caller without one is let in: an API
//     key may stand in its place.
//   - Sessions are not resumed on a node with authorities: each connection is judged by the present ones.
//
// # Plain connections from loopback
//
// The first byte of a TLS connection is 22, the type of a handshake's record, and no HTTP request begins with it. The
// listener waits for the first byte only on connections from loopback, each in a goroutine of its own, so that a silent
// connection holds up no other. All other connections are TLS without a look.
//
// # Behind a proxy
//
// The proxy appends the address of its caller to X-Forwarded-For, or to Forwarded (RFC 7239). Only the last entry is
// the proxy's; the entries before it are the caller's word. A caller may also send the header that the proxy does not
// use. So two headers that name different addresses count for nothing, and the call has the address of the proxy.
//
// # Why not otherwise
//
// Not soheilhy/cmux for the two kinds of connections: its last release is of 2021, it reads the first bytes of all
// connections, a listener of its own cannot lend the port to package room, and it hides the *tls.Conn by which net/http
// finds HTTP/2 unless TLS lies above it. A look at one byte is enough.
//
// Not realclientip-go for the headers: its last release is of 2022, and the part that is needed, the last address of a
// list, is a few lines.
//
// Not one value for the certificate and the authorities: a fault in one must not hold up the other.
package port
