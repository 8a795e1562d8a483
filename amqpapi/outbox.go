package amqpapi

import (
	"net"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/amqpwire"
)

const (
	outboxBytes = 1 << 20 // from which on room waits
	endTime     = 10 * time.Second
)

// outbox holds bytes for one peer. One goroutine writes them, so that adding a frame never waits for the peer.
type outbox struct {
	conn net.Conn

	mu    sync.Mutex
	wake  sync.Cond // at each change of the fields below
	data  []byte
	spare []byte
	ended bool // nothing is added any more
	idle  bool // nothing was added since the last beat
}

func newOutbox(conn net.Conn) *outbox {
	o := &outbox{conn: conn}
	o.wake.L = &o.mu
	return o
}

// add lets a function append whole frames. After the end it does nothing.
func (o *outbox) add(frames func(b []byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.data, o.idle = frames(o.data), false
	o.wake.Broadcast()
}

// room waits until the peer has taken most of the bytes. A frame that is passed on waits for it, so that a slow peer
// slows the other one down.
func (o *outbox) room() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.data) > outboxBytes && !o.ended {
		o.wake.Wait()
	}
}

// beat adds a heartbeat unless something was added since the last beat.
func (o *outbox) beat() {
	o.mu.Lock()
	idle := o.idle
	o.idle = true
	o.mu.Unlock()
	if idle {
		o.add(amqpwire.AppendHeartbeat)
	}
}

// end makes write return once the bytes so far are written, or their peer does not take them.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		_ = o.conn.SetWriteDeadline(time.Now().Add(endTime)) // a closed connection needs none
		o.wake.Broadcast()
	}
}

// write writes until the end, or until a write fails.
func (o *outbox) write() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.data) == 0 && !o.ended {
			o.wake.Wait()
		}
		if len(o.data) == 0 {
			return nil
		}
		data := o.data
		o.data, o.spare = o.spare[:0], nil
		o.wake.Broadcast()
		o.mu.Unlock()
		_, err := o.conn.Write(data)
		o.mu.Lock()
		if cap(data) <= 2*outboxBytes {
			o.spare = data
		}
		if err != nil {
			o.ended, o.data = true, nil
			o.wake.Broadcast()
			return err
		}
	}
}
