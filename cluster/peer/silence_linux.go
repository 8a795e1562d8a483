package peer

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endSilence makes the system give up a connection when what was sent has gone unacknowledged for so long; on a
// listener, those that it accepts. Without it, what is sent to a node that was cut off is repeated at longer and longer
// intervals: calls that are under way wait for their deadline, and when the node is back, a connection may go on
// waiting for as long as the node was away, although a new one would work at once. A node that is paused or busy
// acknowledges, for that is done by its system.
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
