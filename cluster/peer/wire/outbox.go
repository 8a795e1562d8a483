package wire

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// outbox writes to a stream what any goroutine leaves there. Whoever finds nobody writing writes itself, which spares
// the others' being woken, but only once: what has come meanwhile goes to the stream's own writer.
type outbox struct {
	conn    net.Conn
	patient time.Duration // how long one write may take; 0: somebody else watches
	broken  func(error)   // is told that a write has failed
	metrics *metrics
	kick    chan struct{} // the writer's turn, handed over by whoever was writing
	ended   chan struct{} // closed with err set

	mu      sync.Mutex // guards what follows, and in client what is pending
	room    *sync.Cond // something was written
	waiting *batch
	spare   *batch // the other one; with whoever is writing, if somebody is
	writing bool
	err     error // nothing is sent any more
}

func (o *outbox) init(conn net.Conn, m *metrics) {
	o.conn, o.metrics = conn, m
	o.kick, o.ended = make(chan struct{}, 1), make(chan struct{})
	o.room = sync.NewCond(&o.mu)
	o.waiting, o.spare = new(batch), new(batch)
}

// leave is called with the lock, after something was added to what waits; it gives the lock back and sees to it that
// what waits is written.
func (o *outbox) leave() {
	if o.writing || o.err != nil {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.mu.Unlock()
	if o.writeOnce() {
		o.kick <- struct{}{} // there is room: only who writes comes here
	}
}

// writeOnce writes what waits, and tells whether there is more: then the caller is still the one that writes.
//
// It first lets those run that can: if they are about to send something too, it leaves with the same write. Heartbeats
// of many groups become due at the same moment, and so do the answers to them.
func (o *outbox) writeOnce() bool {
	runtime.Gosched()
	o.mu.Lock()
	b := o.waiting
	o.waiting, o.spare = o.spare, nil
	o.mu.Unlock()
	err := o.write(b)
	b.reset()
	o.mu.Lock()
	o.spare = b
	o.writing = err == nil && o.err == nil && o.waiting.bytes() > 0
	more := o.writing
	o.room.Broadcast()
	o.mu.Unlock()
	if err != nil {
		o.broken(err)
	}
	return more
}

func (o *outbox) write(b *batch) error {
	if o.patient > 0 {
		if err := o.conn.SetWriteDeadline(time.Now().Add(o.patient)); err != nil {
			return err
		}
	}
	o.metrics.writes.Inc()
	return b.writeTo(o.conn)
}

// run is the stream's own writer.
func (o *outbox) run() {
	for {
		select {
		case <-o.kick:
			for more := true; more; {
				more = o.writeOnce()
			}
		case <-o.ended:
			return
		}
	}
}

// end is called with the lock: the first error ends the stream, and is the one that is told; then true, and the caller
// closes the connection.
func (o *outbox) end(err error) bool {
	if o.err != nil {
		return false
	}
	o.err = err
	close(o.ended)
	o.room.Broadcast()
	return true
}
