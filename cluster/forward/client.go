package forward

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Stream is the asking end of the Forward call.
type Stream interface {
	Send(*clusterpb.ForwardRequest) error
	Recv() (*clusterpb.ForwardReply, error)
}

// ClientConfig says which node to ask.
type ClientConfig struct {
	Node string
	// Open begins a new stream, which ends with ctx. It must fail soon if the node cannot be reached.
	Open func(ctx context.Context) (Stream, error)
	// Refused tells whether a stream's error means that the other side has read nothing of it.
	Refused func(error) bool
	// MaxOutstanding bounds the bytes of calls without an answer; 0: 32 MiB.
	MaxOutstanding int
	Metrics        *Metrics // nil: none
}

// A message carries calls up to this size, and one more.
const messageBytes = 1 << 20

// Client asks one node. Its methods are safe for concurrent use.
type Client struct {
	cfg    ClientConfig
	wake   chan struct{} // something waits
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	number      uint64
	outstanding int              // bytes of every call in waiting and sent
	waiting     []*call          // in the order in which they came
	sent        map[uint64]*call // on the current stream
}

// call is one call under way. Its owner is the Client until reply is closed.
type call struct {
	msg   *clusterpb.Call
	size  int
	until time.Time // zero: no deadline
	read  bool
	done  chan struct{} // closed when reply or err is set
	reply *clusterpb.CallReply
	err   error
}

// NewClient begins with no stream; the first call opens one.
func NewClient(cfg ClientConfig) *Client {
	if cfg.MaxOutstanding == 0 {
		cfg.MaxOutstanding = 32 << 20
	}
	if cfg.Refused == nil {
		cfg.Refused = func(error) bool { return false }
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, wake: make(chan struct{}, 1), cancel: cancel, sent: make(map[uint64]*call)}
	c.wg.Go(func() { c.run(ctx) })
	return c
}

// Close fails what is outstanding.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Do gives commands of one shard to the node, which must lead it. The replies are in their order.
func (c *Client) Do(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply {
	msg := &clusterpb.Call{Shard: shard, Op: &clusterpb.Call_Commands{Commands: &clusterpb.Commands{Commands: cmds}}}
	reply, err := c.ask(ctx, msg, false)
	if err == nil {
		err = decodeError(reply.Error, shard, c.cfg.Node)
	}
	if err == nil && len(reply.Commands) != len(cmds) {
		err = fmt.Errorf("%w: node %s answered %d of %d commands", task.ErrUnknown, c.cfg.Node, len(reply.Commands), len(cmds))
	}
	replies := make([]task.Reply, len(cmds))
	for i := range replies {
		if err != nil {
			replies[i].Err = err
			continue
		}
		answer := reply.Commands[i]
		replies[i] = task.Reply{Result: answer.Result, Err: decodeError(answer.Error, shard, c.cfg.Node)}
		if replies[i].Result == nil && replies[i].Err == nil {
			replies[i].Err = fmt.Errorf("%w: node %s answered nothing", task.ErrUnknown, c.cfg.Node)
		}
	}
	return replies
}

func (c *Client) ask(ctx context.Context, msg *clusterpb.Call, read bool) (*clusterpb.CallReply, error) {
	k := &call{msg: msg, size: msg.SizeVT(), read: read, done: make(chan struct{})}
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

func (c *Client) enqueue(k *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return notSent(c.cfg.Node, context.Canceled)
	case c.outstanding > 0 && c.outstanding+k.size > c.cfg.MaxOutstanding:
		return fmt.Errorf("%w for node %s: %d bytes", task.ErrOverloaded, c.cfg.Node, c.outstanding)
	}
	c.number++
	k.msg.Number = c.number
	c.outstanding += k.size
	c.waiting = append(c.waiting, k)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// abandon ends a call whose caller waits no longer. Its answer, should it come, finds nobody.
func (c *Client) abandon(k *call, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, sent := c.sent[k.msg.Number]; sent {
		delete(c.sent, k.msg.Number)
		c.finish(k, nil, unanswered(c.cfg.Node, k.read, cause))
		return
	}
	for i, w := range c.waiting {
		if w == k {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			c.finish(k, nil, notSent(c.cfg.Node, cause))
			return
		}
	}
}

// finish is called with the lock held, once for each call, when it is in neither waiting nor sent any more.
func (c *Client) finish(k *call, reply *clusterpb.CallReply, err error) {
	c.outstanding -= k.size
	k.reply, k.err = reply, err
	close(k.done)
}
