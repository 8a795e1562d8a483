package peer

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endSilence makes the system close a connection whose sent bytes stay unacknowledged for after. On a listener it
// applies to every accepted connection. Without it, TCP repeats its packets to an unreachable node at longer and longer
// intervals: calls in progress wait for their deadline, and after the node is back an old connection may stay stuck for
// as long as the node was away, although a new one would work at once. The system of a paused or busy node still
// acknowledges.
func endSilence(socket syscall.Conn, after time.Duration) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	})
	return errors.Join(err, set)
}
