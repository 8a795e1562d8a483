package calls

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/tracing"
)

// Stream is the calling end of the Forward call.
type Stream interface {
	Send(*clusterpb.ForwardRequest) error
	Recv() (*clusterpb.ForwardReply, error)
}

// Peer is another node.
type Peer interface {
	// Open begins a new stream, which ends with ctx. It must fail soon if the node cannot be reached.
	Open(ctx context.Context) (Stream, error)
	// Refused reports whether a stream's error means that the other node refuses the stream, at its beginning or later.
	// The other node has begun none of the calls that it has not answered.
	Refused(err error) bool
}

// ClientConfig holds the node to call and the settings of a Client.
type ClientConfig struct {
	Node string // id
	Peer Peer
	// MaxOutstanding bounds the bytes of calls without an answer; 0: 64 MiB. The namespaces share them.
	MaxOutstanding int
	Metrics        *Metrics // nil: no metrics
}

// messageBytes is the size of calls up to which a message is filled; the last call may exceed it.
const messageBytes = 1 << 20

// Client makes calls to one node. Its methods are safe for concurrent use.
type Client struct {
	Node // makes a message of each call, for send

	cfg    ClientConfig
	wake   chan struct{} // capacity 1; filled when a call waits
	cancel context.CancelFunc
	wg     sync.WaitGroup

	outstanding *admission.Pool // bytes of every call in waiting and sent, by namespace

	mu      sync.Mutex
	closed  bool
	number  uint64
	waiting admission.Queue[*pending] // calls that are in no message yet, by namespace
	opened  *opened                   // nil: no stream is open
	sent    map[uint64]*pending       // on the current stream
}

// pending is one call in progress. It belongs to the Client until done is closed.
type pending struct {
	msg       *clusterpb.Call
	namespace string // empty: the call is not about one
	size      int
	until     time.Time     // zero: no deadline
	done      chan struct{} // closed when reply or err is set
	reply     *clusterpb.CallReply
	err       error
}

// NewClient returns a Client without a stream; the first call opens one.
func NewClient(cfg ClientConfig) *Client {
	if cfg.MaxOutstanding == 0 {
		cfg.MaxOutstanding = 64 << 20
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, wake: make(chan struct{}, 1), cancel: cancel, sent: make(map[uint64]*pending)}
	c.outstanding = admission.NewPool(cfg.MaxOutstanding)
	c.Node = Remote{Node: cfg.Node, Send: c.send}
	c.wg.Go(func() { c.run(ctx) })
	return c
}

// Close fails all outstanding calls.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// send sends a call and waits for its reply.
func (c *Client) send(ctx context.Context, msg *clusterpb.Call, namespace string) (*clusterpb.CallReply, error) {
	msg.Traceparent = tracing.Traceparent(ctx)
	k := &pending{msg: msg, namespace: namespace, size: msg.SizeVT(), done: make(chan struct{})}
	k.until, _ = ctx.Deadline()
	o, err := c.enqueue(k)
	if err != nil {
		return nil, err
	}
	if o == nil || c.write(o) {
		c.wakeUp()
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		c.abandon(k, ctx.Err())
		<-k.done
	}
	return k.reply, k.err
}

// enqueue lets a call wait for the open stream, and returns the stream; nil: none is open.
func (c *Client) enqueue(k *pending) (*opened, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, notSent(c.cfg.Node, context.Canceled)
	case !c.outstanding.TakeFirst(k.namespace, k.size):
		return nil, fmt.Errorf("%w for node %s: %d bytes", task.ErrOverloaded, c.cfg.Node, c.outstanding.Taken())
	}
	c.number++
	k.msg.Number = c.number
	c.waiting.Add(k.namespace, k)
	return c.opened, nil
}

// wakeUp lets run open a stream, or go on writing.
func (c *Client) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// abandon ends a call whose caller no longer waits. A later answer is dropped.
func (c *Client) abandon(k *pending, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, sent := c.sent[k.msg.Number]; sent {
		delete(c.sent, k.msg.Number)
		c.finish(k, nil, unanswered(c.cfg.Node, cause))
		return
	}
	if c.waiting.Remove(k.namespace, func(other *pending) bool { return other == k }) {
		c.finish(k, nil, notSent(c.cfg.Node, cause))
	}
}

// finish completes a call that is in neither waiting nor sent any more. It is called once for each call. The caller
// holds the lock.
func (c *Client) finish(k *pending, reply *clusterpb.CallReply, err error) {
	c.outstanding.Give(k.namespace, k.size)
	k.reply, k.err = reply, err
	close(k.done)
}

// next removes and returns the call whose turn it is, or nil if none waits. The caller holds the lock.
func (c *Client) next() *pending {
	l := c.waiting.Next()
	if l == nil {
		return nil
	}
	k := c.waiting.Take(l)
	c.waiting.Charge(l, admission.PriceOf(k.size))
	return k
}

// Metrics counts the calls and messages of all clients of a node.
type Metrics struct {
	calls, messages prometheus.Counter
}

// NewMetrics returns Metrics, registered with r unless it is nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_forward_calls_total", Help: "Calls sent to other nodes.",
		}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_forward_messages_total", Help: "Messages in which they were sent.",
		}),
	}
	if r != nil {
		r.MustRegister(m.calls, m.messages)
	}
	return m
}

func (m *Metrics) message(calls int) {
	m.calls.Add(float64(calls))
	m.messages.Inc()
}
