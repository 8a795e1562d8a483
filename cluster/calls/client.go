package calls

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/tracing"
)

// Stream is the calling end of the Forward call.
type Stream interface {
	Send(*clusterpb.ForwardRequest) error
	Recv() (*clusterpb.ForwardReply, error)
}

// ClientConfig holds the node to call and the settings of a Client.
type ClientConfig struct {
	Node string
	// Open begins a new stream, which ends with ctx. It must fail soon if the node cannot be reached.
	Open func(ctx context.Context) (Stream, error)
	// Refused reports whether a stream's error means that the other node has read nothing of it.
	Refused func(error) bool
	// MaxOutstanding bounds the bytes of calls without an answer; 0: 64 MiB. A namespace leaves as much free as it holds.
	MaxOutstanding int
	Metrics        *Metrics // nil: no metrics
}

// messageBytes is the size of calls up to which a message is filled; the last call may exceed it.
const messageBytes = 1 << 20

// Client makes calls to one node. Its methods are safe for concurrent use.
type Client struct {
	Node // makes a message of each call, for ask

	cfg    ClientConfig
	wake   chan struct{} // capacity 1; filled when a call waits
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	number      uint64
	outstanding int                 // bytes of every call in waiting and sent
	held        map[string]int      // outstanding, by namespace; without zeros
	waiting     lines               // calls that are in no message yet
	sent        map[uint64]*pending // on the current stream
}

// pending is one call in progress. It belongs to the Client until done is closed.
type pending struct {
	msg        *clusterpb.Call
	namespace  string // empty: the call is not about one
	size       int
	until      time.Time // zero: no deadline
	repeatable bool
	done       chan struct{} // closed when reply or err is set
	reply      *clusterpb.CallReply
	err        error
}

// NewClient returns a Client without a stream; the first call opens one.
func NewClient(cfg ClientConfig) *Client {
	if cfg.MaxOutstanding == 0 {
		cfg.MaxOutstanding = 64 << 20
	}
	if cfg.Refused == nil {
		cfg.Refused = func(error) bool { return false }
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, wake: make(chan struct{}, 1), cancel: cancel, sent: make(map[uint64]*pending)}
	c.held, c.waiting = map[string]int{}, newLines()
	c.Node = Remote{Node: cfg.Node, Ask: c.ask}
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

// ask sends a call and waits for its reply.
func (c *Client) ask(ctx context.Context, msg *clusterpb.Call, repeatable bool) (*clusterpb.CallReply, error) {
	msg.Traceparent = tracing.Traceparent(ctx)
	k := &pending{
		msg: msg, namespace: namespaceOf(msg), size: msg.SizeVT(), repeatable: repeatable, done: make(chan struct{}),
	}
	k.until, _ = ctx.Deadline()
	if err := c.enqueue(k); err != nil {
		return nil, err
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		c.abandon(k, ctx.Err())
		<-k.done
	}
	return k.reply, k.err
}

func (c *Client) enqueue(k *pending) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return notSent(c.cfg.Node, context.Canceled)
	case c.outstanding > 0 && !c.fits(k):
		return fmt.Errorf("%w for node %s: %d bytes", task.ErrOverloaded, c.cfg.Node, c.outstanding)
	}
	c.number++
	k.msg.Number = c.number
	c.outstanding += k.size
	c.held[k.namespace] += k.size
	c.waiting.add(k)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// fits reports whether a call may be outstanding beside the others. A namespace leaves at least as much free as it
// holds, so that the calls of one lock no other out. The caller holds the lock.
func (c *Client) fits(k *pending) bool {
	free := c.cfg.MaxOutstanding - c.outstanding - k.size
	if k.namespace == "" {
		return free >= 0
	}
	return c.held[k.namespace]+k.size <= free
}

// abandon ends a call whose caller no longer waits. A later answer is dropped.
func (c *Client) abandon(k *pending, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, sent := c.sent[k.msg.Number]; sent {
		delete(c.sent, k.msg.Number)
		c.finish(k, nil, unanswered(c.cfg.Node, k.repeatable, cause))
		return
	}
	if c.waiting.remove(k) {
		c.finish(k, nil, notSent(c.cfg.Node, cause))
	}
}

// finish completes a call that is in neither waiting nor sent any more. It is called once for each call. The caller
// holds the lock.
func (c *Client) finish(k *pending, reply *clusterpb.CallReply, err error) {
	c.outstanding -= k.size
	if c.held[k.namespace] -= k.size; c.held[k.namespace] == 0 {
		delete(c.held, k.namespace)
	}
	k.reply, k.err = reply, err
	close(k.done)
}

// lines holds the waiting calls: a line for each namespace, in the order of arrival. The lines take turns, one call at
// a time, so that a call waits for one call of each other namespace, and not for all that came before it.
type lines struct {
	turns  []string // namespaces with a call; the one whose turn it is comes first
	byName map[string][]*pending
}

func newLines() lines { return lines{byName: map[string][]*pending{}} }

func (l *lines) empty() bool { return len(l.turns) == 0 }

func (l *lines) add(k *pending) {
	line := l.byName[k.namespace]
	if len(line) == 0 {
		l.turns = append(l.turns, k.namespace)
	}
	l.byName[k.namespace] = append(line, k)
}

// take removes the call whose turn it is, and returns it. There must be one.
func (l *lines) take() *pending {
	namespace := l.turns[0]
	line := l.byName[namespace]
	k := line[0]
	line[0] = nil
	l.turns = slices.Delete(l.turns, 0, 1)
	if line = line[1:]; len(line) > 0 {
		l.byName[namespace] = line
		l.turns = append(l.turns, namespace)
	} else {
		delete(l.byName, namespace)
	}
	return k
}

// remove removes a call, and reports whether it was there.
func (l *lines) remove(k *pending) bool {
	line := l.byName[k.namespace]
	at := slices.Index(line, k)
	if at < 0 {
		return false
	}
	if line = slices.Delete(line, at, at+1); len(line) > 0 {
		l.byName[k.namespace] = line
		return true
	}
	delete(l.byName, k.namespace)
	l.turns = slices.DeleteFunc(l.turns, func(namespace string) bool { return namespace == k.namespace })
	return true
}

// namespaceOf returns the namespace that a call counts for: that of its first command. It is empty for the cluster's
// own calls.
func namespaceOf(msg *clusterpb.Call) string {
	switch op := msg.Op.(type) {
	case *clusterpb.Call_Commands:
		if cmds := op.Commands.GetCommands(); len(cmds) > 0 {
			return task.CanonicalNamespace(cmds[0].GetNamespace())
		}
	case *clusterpb.Call_Get:
		return task.CanonicalNamespace(op.Get.GetNamespace())
	case *clusterpb.Call_List:
		return task.CanonicalNamespace(op.List.GetQuery().GetNamespace())
	}
	return ""
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
