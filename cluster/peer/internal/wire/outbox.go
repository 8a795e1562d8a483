package wire

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// outbox writes the data that goroutines leave for a stream. A goroutine that finds no write in progress writes itself,
// which saves waking another goroutine, but only once: data that arrives meanwhile goes to the stream's own writer,
// run.
type outbox struct {
	conn    net.Conn
	patient time.Duration // limit of one write; 0: the owner watches for silence
	broken  func(error)   // receives the error of a failed write
	metrics *metrics
	kick    chan struct{} // wakes run to continue writing
	ended   chan struct{} // closed when err is set

	mu      sync.Mutex // guards the fields below, and client.pending
	room    *sync.Cond // signalled after each write
	waiting *batch
	spare   *batch // the other batch; nil during a write
	writing bool
	err     error // not nil: the stream has ended
}

func (o *outbox) init(conn net.Conn, m *metrics) {
	o.conn, o.metrics = conn, m
	o.kick, o.ended = make(chan struct{}, 1), make(chan struct{})
	o.room = sync.NewCond(&o.mu)
	o.waiting, o.spare = new(batch), new(batch)
}

// leave sees to it that the waiting batch is written, by this goroutine or another. The caller holds the lock and has
// added data; leave unlocks.
func (o *outbox) leave() {
	if o.writing || o.err != nil {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.mu.Unlock()
	if o.writeOnce() {
		o.kick <- struct{}{} // there is room: only the writing goroutine gets here
	}
}

// writeOnce writes the waiting batch, and reports whether more data waits: then the caller must write again or kick
// run.
//
// It first lets other goroutines run, so that their data leaves with the same write. Heartbeats of many groups become
// due at the same moment, and so do the answers to them.
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

// end ends the stream with its first error and returns true: the caller must close the connection. Later calls return
// false. The caller holds the lock.
func (o *outbox) end(err error) bool {
	if o.err != nil {
		return false
	}
	o.err = err
	close(o.ended)
	o.room.Broadcast()
	return true
}
