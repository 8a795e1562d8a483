package wire

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// The bounds of requests on one stream that are not written or not answered yet.
const (
	maxWaiting = 4 << 20 // bytes from which on senders wait
	maxPending = 8192    // requests
)

var (
	errTimeout = errors.New("no answer in time")
	errSilent  = errors.New("nothing was heard for as long as an answer may take")
	errPending = fmt.Errorf("more than %d requests without an answer", maxPending)
)

// exchange is a request that waits for its answer. The goroutine that takes it off its client's list completes it.
type exchange struct {
	group  *Group
	resp   *raft.AppendEntriesResponse // written only by the completing goroutine
	done   completer
	client atomic.Pointer[client] // nil: not sent yet
	number uint64                 // guarded by the client
	began  time.Time              // guarded by the client, too
}

// completer receives the outcome of an exchange, once. complete must not block.
type completer interface{ complete(err error) }

// cancel completes an exchange with err unless it has ended already.
func (c *exchange) cancel(err error) {
	if cl := c.client.Load(); cl != nil && cl.forget(c) {
		c.done.complete(err)
	}
}

// client is the sending end of a stream: it sends requests and matches answers with them.
type client struct {
	outbox
	self    string // node id
	peer    []byte // node id; all answers share this memory
	timeout time.Duration
	onEnd   func(*client)

	pending map[uint64]*exchange // by number; nil after the end
	last    uint64               // number of the last exchange
	heard   time.Time            // time of the last answer
	alarm   *time.Timer
	armed   bool // the alarm is set, as it must be while an exchange is pending
}

func newClient(conn net.Conn, self, peer string, timeout time.Duration, m *metrics, onEnd func(*client)) *client {
	cl := &client{self: self, peer: []byte(peer), timeout: timeout, onEnd: onEnd, pending: make(map[uint64]*exchange)}
	cl.outbox.init(conn, m)
	cl.outbox.broken = cl.fail
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.alarm, cl.armed = time.AfterFunc(timeout, cl.watch), true
	return cl
}

// send begins an exchange. If it returns an error, the exchange was not begun and will not be completed.
func (cl *client) send(c *exchange, r *raft.AppendEntriesRequest) error {
	cl.mu.Lock()
	if cl.err != nil {
		defer cl.mu.Unlock()
		return brokenError{cl.err}
	}
	if len(cl.pending) >= maxPending {
		cl.mu.Unlock()
		return errPending
	}
	cl.enter(c)
	for cl.waiting.bytes() >= maxWaiting && cl.pending[c.number] == c {
		cl.room.Wait()
	}
	if cl.pending[c.number] != c {
		cl.mu.Unlock()
		return nil // another goroutine has completed it meanwhile
	}
	if err := appendRequest(cl.waiting, c.group.number, c.number, cl.self, r); err != nil {
		delete(cl.pending, c.number)
		cl.mu.Unlock()
		return err
	}
	cl.metrics.requests.Inc()
	cl.leave()
	return nil
}

// brokenError reports that the stream ended; from send, that it had ended before the request was sent.
type brokenError struct{ cause error }

func (e brokenError) Error() string { return fmt.Sprintf("the stream has ended: %v", e.cause) }
func (e brokenError) Unwrap() error { return e.cause }

// enter makes an exchange pending. The caller holds the lock.
func (cl *client) enter(c *exchange) {
	cl.last++
	c.number, c.began = cl.last, time.Now()
	c.client.Store(cl)
	cl.pending[c.number] = c
	if !cl.armed {
		cl.armed = true
		cl.alarm.Reset(cl.timeout)
	}
}

// forget takes an exchange off the list, and reports whether it was still there.
func (cl *client) forget(c *exchange) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.pending[c.number] != c {
		return false
	}
	delete(cl.pending, c.number)
	cl.room.Broadcast()
	return true
}

// forgetGroup completes all exchanges of a group with err.
func (cl *client) forgetGroup(g *Group, err error) {
	var exchanges []*exchange
	cl.mu.Lock()
	for number, c := range cl.pending {
		if c.group == g {
			exchanges = append(exchanges, c)
			delete(cl.pending, number)
		}
	}
	cl.room.Broadcast()
	cl.mu.Unlock()
	completeAll(exchanges, err)
}

func completeAll(exchanges []*exchange, err error) {
	for _, c := range exchanges {
		c.done.complete(err)
	}
}

// read takes answers until the stream ends.
func (cl *client) read() {
	r := bufio.NewReaderSize(cl.conn, lengthBytes+maxAnswer)
	for {
		var a answer
		err := readHead(r, maxAnswer, func(head []byte) error {
			var err error
			a, err = parseAnswer(head, cl.peer)
			return err
		})
		if err != nil {
			cl.fail(err)
			return
		}
		cl.take(a)
	}
}

func (cl *client) take(a answer) {
	cl.mu.Lock()
	c := cl.pending[a.number]
	delete(cl.pending, a.number)
	cl.heard = time.Now()
	cl.mu.Unlock()
	if c == nil {
		return // the exchange was given up
	}
	*c.resp = a.resp
	c.done.complete(a.err)
}

// watch completes exchanges that have timed out. It also ends the stream if no answer arrived since such an exchange
// began: a new stream may reach the node.
func (cl *client) watch() {
	cl.mu.Lock()
	now, next, silent := time.Now(), cl.timeout, false
	var late []*exchange
	for number, c := range cl.pending {
		if left := c.began.Add(cl.timeout).Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		late = append(late, c)
		delete(cl.pending, number)
		silent = silent || !cl.heard.After(c.began)
	}
	if cl.armed = len(cl.pending) > 0; cl.armed {
		cl.alarm.Reset(next)
	}
	cl.room.Broadcast()
	cl.mu.Unlock()
	if silent {
		cl.fail(errSilent)
	}
	completeAll(late, errTimeout)
}

// fail ends the stream.
func (cl *client) fail(err error) {
	cl.mu.Lock()
	if !cl.end(err) {
		cl.mu.Unlock()
		return
	}
	exchanges := make([]*exchange, 0, len(cl.pending))
	for _, c := range cl.pending {
		exchanges = append(exchanges, c)
	}
	cl.pending = nil
	cl.alarm.Stop()
	cl.mu.Unlock()
	cl.onEnd(cl) // before an exchange is tried again
	completeAll(exchanges, brokenError{err})
	_ = cl.conn.Close() // the stream has ended
}
