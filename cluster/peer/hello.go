package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// A hello proves the id of a node that was dialled. The caller sends helloByte and the id that it looks for. The node
// answers with its own id and takesPart or standsBy, and hangs up if the two ids differ. The purpose of the connection
// follows.
const (
	takesPart = 1
	standsBy  = 0 // the node's data folder is being checked or was refused: it may be a copy
)

// errMisled is the error of a dial that found another node.
type errMisled struct{ addr, found, want string }

func (e errMisled) Error() string {
	return fmt.Sprintf("peer: at %s is node %q, not %q", e.addr, e.found, e.want)
}

// greet sends a hello and reports whether the node at the other end, which must have the id, takes part. It ends with
// the context, and leaves no deadline on the connection.
func greet(ctx context.Context, conn net.Conn, addr, id string) (takesPartNow bool, err error) {
	if len(id) != idBytes {
		return false, fmt.Errorf("peer: node %q: %w", id, errHeader)
	}
	late := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // fails only on a closed connection
	defer late()
	if _, err := conn.Write(append([]byte{helloByte}, id...)); err != nil {
		return false, fmt.Errorf("peer: %s: %w", addr, err)
	}
	var answer [idBytes + 1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return false, fmt.Errorf("peer: %s does not say which node it is: %w", addr, err)
	}
	if !late() {
		return false, fmt.Errorf("peer: %s: %w", addr, context.Cause(ctx))
	}
	if found := string(answer[:idBytes]); found != id {
		return false, errMisled{addr, found, id}
	}
	return answer[idBytes] == takesPart, nil
}

// answerHello reads the id that the caller looks for, and answers with this node's id.
func (e *Endpoint) answerHello(conn net.Conn) (reason string, err error) {
	var sought [idBytes]byte
	if _, err := io.ReadFull(conn, sought[:]); err != nil {
		return droppedSilent, err
	}
	state := byte(standsBy)
	if e.cfg.Admission == nil || e.cfg.Admission.TakesPart() {
		state = takesPart
	}
	if _, err := conn.Write(append([]byte(e.cfg.NodeID), state)); err != nil {
		return droppedSilent, err
	}
	if string(sought[:]) != e.cfg.NodeID {
		return droppedMisled, fmt.Errorf("it is meant for node %q", sought)
	}
	return "", nil
}
