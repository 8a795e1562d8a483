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

// maxTargets bounds how many addresses of a node one dial tries.
const maxTargets = 16

// attempt is how the dial of one address has ended.
type attempt struct {
	target Target
	conn   net.Conn
	err    error
}

// DialNode connects to a node wherever it is now: at the first of its addresses where a node proves to have the id.
// The addresses are tried in order. The next one is dialled when the last has failed, and beside it when it has said
// nothing for headStart. So an address that is wrong, stale or silent costs a moment.
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
	e.cfg.Reached(nodeID, won.target.Addr)
	return won.conn, nil
}

// race dials the targets until one is the node.
func (e *Endpoint) race(ctx context.Context, nodeID string, targets []Target) (attempt, error) {
	ended := make(chan attempt, len(targets))
	next := time.NewTimer(0)
	defer next.Stop()
	var failed []error
	for started := 0; len(failed) < len(targets); {
		select {
		case <-next.C:
			if started < len(targets) {
				go func(t Target) { ended <- e.try(ctx, nodeID, t) }(targets[started])
				started++
				next.Reset(headStart)
			}
		case a := <-ended:
			if a.err == nil {
				go closeRest(ended, started-len(failed)-1)
				return a, nil
			}
			failed = append(failed, a.err)
			next.Reset(0)
		}
	}
	return attempt{}, errors.Join(failed...)
}

// closeRest hangs up where a slower attempt has found the node, too.
func closeRest(ended <-chan attempt, running int) {
	for range running {
		if a := <-ended; a.conn != nil {
			_ = a.conn.Close() // nothing was said on it
		}
	}
}

// try dials one address, and finds out whether the node is there.
func (e *Endpoint) try(ctx context.Context, nodeID string, t Target) attempt {
	conn, err := e.dial(ctx, t)
	if err != nil {
		return attempt{target: t, err: err}
	}
	err = greet(ctx, conn, t.Addr, nodeID)
	if err == nil {
		return attempt{target: t, conn: conn}
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
