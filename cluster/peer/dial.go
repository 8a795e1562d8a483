package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// headStart is the time that an address has alone before the next one is dialled beside it.
const headStart = 250 * time.Millisecond

// standPatience is how long, from its start, a dial waits for a node that takes part before it accepts one that stands
// by.
const standPatience = 2 * headStart

// maxTargets is the greatest number of addresses that one dial tries.
const maxTargets = 16

// attempt is the outcome of the dial of one address.
type attempt struct {
	target   Target
	conn     net.Conn
	standsBy bool // the node answered and does not take part: its folder may be a copy
	err      error
}

// DialNode connects to a node at the first of its addresses where a node proves to have the id. It tries the addresses
// in order. It dials the next one when the last has failed, and beside the last when that has been silent for
// headStart. So a wrong, stale or silent address costs a moment. DialNode connects to a node that does not take part
// only if no other node with the id does.
func (e *Endpoint) DialNode(ctx context.Context, nodeID string) (net.Conn, error) {
	targets := e.cfg.Directory.Lookup(nodeID)
	if len(targets) == 0 {
		return nil, fmt.Errorf("peer: no address is known for node %s", nodeID)
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.DialTimeout)
	defer cancel()
	won, err := e.race(ctx, nodeID, targets[:min(len(targets), maxTargets)])
	if err != nil {
		return nil, err
	}
	if !won.standsBy {
		e.cfg.Directory.Reached(nodeID, won.target.Addr)
	}
	return won.conn, nil
}

// race dials the targets until one of them is the node and takes part. If one is the node and does not take part, the
// others have until standPatience after the start.
func (e *Endpoint) race(ctx context.Context, nodeID string, targets []Target) (attempt, error) {
	ended := make(chan attempt, len(targets))
	next, late := time.NewTimer(0), time.NewTimer(standPatience)
	defer next.Stop()
	defer late.Stop()
	var failed []error
	var standing attempt // the first attempt whose node stands by
	started, over, hurried := 0, 0, false
	for over < len(targets) && (!hurried || standing.conn == nil) {
		select {
		case <-next.C:
			if started < len(targets) {
				go func(t Target) { ended <- e.try(ctx, nodeID, t) }(targets[started])
				started++
				next.Reset(headStart)
			}
		case <-late.C:
			hurried = true
		case a := <-ended:
			over++
			next.Reset(0)
			if a.err != nil {
				failed = append(failed, a.err)
				continue
			}
			if a.standsBy && standing.conn == nil {
				standing = a
				continue
			}
			if a.standsBy {
				a.hangUp()
				continue
			}
			standing.hangUp()
			go closeRest(ended, started-over)
			return a, nil
		}
	}
	go closeRest(ended, started-over)
	if standing.conn != nil {
		return standing, nil
	}
	return attempt{}, errors.Join(failed...)
}

func (a attempt) hangUp() {
	if a.conn != nil {
		_ = a.conn.Close() // nothing was sent on it
	}
}

// closeRest closes the connections of the slower attempts.
func closeRest(ended <-chan attempt, running int) {
	for range running {
		a := <-ended
		a.hangUp()
	}
}

// try dials one address and checks that the node with the id is there.
func (e *Endpoint) try(ctx context.Context, nodeID string, t Target) attempt {
	conn, err := e.dial(ctx, t)
	if err != nil {
		return attempt{target: t, err: err}
	}
	present, err := greet(ctx, conn, t.Addr, nodeID)
	if err == nil {
		return attempt{target: t, conn: conn, standsBy: !present}
	}
	if misled := (errMisled{}); errors.As(err, &misled) {
		e.cfg.Directory.Reached(misled.found, t.Addr)
	}
	return attempt{target: t, err: errors.Join(err, conn.Close())}
}

// DialAddr connects to an address for gRPC, whichever node listens there.
func (e *Endpoint) DialAddr(ctx context.Context, addr string) (net.Conn, error) {
	return e.dial(ctx, Target{Addr: addr})
}
