package peer

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// firstFlight returns the first bytes that a client without a certificate sends.
func firstFlight(t testing.TB) []byte {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		_ = tls.Client(there, &tls.Config{InsecureSkipVerify: true}).Handshake()
	}()
	buf := make([]byte, 4096)
	n, err := here.Read(buf)
	assert.NoError(t, err)
	return buf[:n]
}

// FuzzHandshake checks that a node with keys refuses a stranger, whatever bytes it sends.
func FuzzHandshake(f *testing.F) {
	hello := firstFlight(f)
	for _, seed := range [][]byte{nil, {0x16}, hello, hello[:len(hello)/2], append(hello, hello...), {groupByte}, {gossipByte}} {
		f.Add(seed)
	}
	a := newAuthority(f)
	e := listen(f, newBook(), 1, a.keys(f, "n1"))
	f.Fuzz(func(t *testing.T, said []byte) {
		here, there := net.Pipe()
		assert.NoError(t, here.SetDeadline(time.Now().Add(5*time.Second)))
		go func() {
			_, _ = here.Write(said)
			_ = here.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		if conn, name, err := e.secure(there); err == nil {
			t.Fatalf("a stranger was let in as %q: %v", name, conn)
		}
	})
}
