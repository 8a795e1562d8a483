package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// headStart is how long an address has to itself before the next one is dialled too.
const headStart = 250 * time.Millisecond

// standPatience is how long a node that does not take part is passed over for one with its id that does.
const standPatience = 2 * headStart

// maxTargets bounds how many addresses of a node one dial tries.
const maxTargets = 16

// attempt is how the dial of one address has ended.
type attempt struct {
	target   Target
	conn     net.Conn
	standsBy bool // the node is there and does not take part: perhaps it is a copy
	err      error
}

// DialNode connects to a node wherever it is now: at the first of its addresses where a node proves to have the id.
// The addresses are tried in order. The next one is dialled when the last has failed, and beside it when it has said
// nothing for headStart. So an address that is wrong, stale or silent costs a moment. A node that does not take part is
// connected to if none does that has the id.
func (e *Endpoint) DialNode(ctx context.Context, nodeID string) (net.Conn, error) {
	targets := e.cfg.Lookup(nodeID)
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
		e.cfg.Reached(nodeID, won.target.Addr)
	}
	return won.conn, nil
}

// race dials the targets until one is the node and takes part. If one is the node and does not, the others have
// standPatience.
func (e *Endpoint) race(ctx context.Context, nodeID string, targets []Target) (attempt, error) {
	ended := make(chan attempt, len(targets))
	next, late := time.NewTimer(0), time.NewTimer(standPatience)
	defer next.Stop()
	defer late.Stop()
	var failed []error
	var standing attempt // the first that stands by
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
		_ = a.conn.Close() // nothing was said on it
	}
}

// closeRest hangs up where a slower attempt has found the node, too.
func closeRest(ended <-chan attempt, running int) {
	for range running {
		a := <-ended
		a.hangUp()
	}
}

// try dials one address, and finds out whether the node is there.
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
		e.cfg.Reached(misled.found, t.Addr)
	}
	return attempt{target: t, err: errors.Join(err, conn.Close())}
}

// DialAddr connects for gRPC to whatever node listens at the address.
func (e *Endpoint) DialAddr(ctx context.Context, addr string) (net.Conn, error) {
	return e.dial(ctx, Target{Addr: addr})
}
