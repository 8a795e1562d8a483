package wire

import (
	"fmt"
	"net"
	"time"
)

// Refusal is the reason for which a node does not take a stream. The node sends it in answer to the header, as a byte
// greater than every version.
type Refusal byte

// The refusals.
const (
	WrongNode Refusal = 0x80 + iota // the stream is meant for another node or another cluster
	Stranger                        // the caller is not in the node's cluster
	NoRoom                          // the node has as many streams as it takes
)

// Error describes the reason. A newer build may send reasons that this build does not know.
func (r Refusal) Error() string {
	switch r {
	case WrongNode:
		return "the node refuses the stream: it is another node, or of another cluster"
	case Stranger:
		return "the node refuses the stream: it does not count this node among its cluster's"
	case NoRoom:
		return "the node refuses the stream: it has no room for more"
	default:
		return fmt.Sprintf("the node refuses the stream for reason %#02x, which this build does not know", byte(r))
	}
}

// Refuse sends the refusal to the caller of a stream. It leaves the connection open.
func Refuse(conn net.Conn, why Refusal, timeout time.Duration) error {
	return answerHeader(conn, byte(why), timeout)
}

// Take tells the caller of a stream that the stream is taken, and the version that both nodes speak.
func Take(conn net.Conn, timeout time.Duration) error { return answerHeader(conn, version, timeout) }

func answerHeader(conn net.Conn, answer byte, timeout time.Duration) error {
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{answer}); err != nil {
		return err
	}
	return conn.SetWriteDeadline(time.Time{})
}
