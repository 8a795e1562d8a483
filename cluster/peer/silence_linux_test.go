package peer

import (
	"io"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/internal/assert"
)

// A connection to a silent node dies soon, at either end.
func TestSilentPeersAreGivenUp(t *testing.T) {
	b := newBook()
	one, two := listen(t, b, 1), listen(t, b, 2)
	dialled, err := one.DialNode(t.Context(), nodeID(2))
	assert.NoError(t, err)
	defer dialled.Close()
	if _, err := io.WriteString(dialled, "PRI"); err != nil {
		t.Fatal(err)
	}
	accepted := accept(t, two.GRPC()).(*tracked).Conn.(*prefixed).Conn
	for name, conn := range map[string]net.Conn{"dialled": dialled, "accepted": accepted} {
		raw, err := conn.(syscall.Conn).SyscallConn()
		assert.NoError(t, err)
		err = raw.Control(func(fd uintptr) {
			got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if want := int(one.cfg.Silence.Milliseconds()); got != want || want == 0 || err != nil {
				t.Errorf("%s: %d ms, not %d: %v", name, got, want, err)
			}
		})
		assert.Equal(t, err, nil)
	}
}
