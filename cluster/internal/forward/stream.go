package forward

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// run opens a stream whenever a call waits, one stream after the other.
func (c *Client) run(ctx context.Context) {
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			c.failAll(ctx.Err())
			return
		}
		c.failAll(c.stream(ctx))
	}
}

// stream opens a stream and uses it until it breaks. It returns the reason.
func (c *Client) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := c.cfg.Open(ctx)
	if err != nil {
		return err
	}
	received := make(chan struct{})
	go func() { defer close(received); cancel(c.receive(s)) }()
	defer func() { <-received }() // so no answer of this stream meets a call of the next
	for {
		// A send ends when the message is in a buffer, long before it is on the wire. Gosched lets other callers add
		// their calls first: busy nodes then send messages of many calls, and idle nodes lose no time.
		runtime.Gosched()
		msg := c.take()
		if msg == nil {
			select {
			case <-c.wake:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		c.cfg.Metrics.message(len(msg.Calls))
		if err := s.Send(msg); err != nil {
			// After io.EOF only Recv tells how the stream has ended. Send returns it for a clean end and for a broken one.
			if !errors.Is(err, io.EOF) {
				cancel(err)
			}
			<-received
			return context.Cause(ctx)
		}
	}
}

// take moves waiting calls, up to one message's worth, to sent, and returns the message; nil: no call waits.
func (c *Client) take() *clusterpb.ForwardRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting.empty() {
		return nil
	}
	msg := &clusterpb.ForwardRequest{}
	for bytes := 0; !c.waiting.empty() && bytes < messageBytes; {
		k := c.waiting.take()
		if !k.until.IsZero() {
			k.msg.TimeoutMs = max(time.Until(k.until).Milliseconds(), 1)
		}
		bytes += k.size
		msg.Calls = append(msg.Calls, k.msg)
		c.sent[k.msg.Number] = k
	}
	return msg
}

// receive gives answers to their calls until the stream ends. It returns the reason.
func (c *Client) receive(s Stream) error {
	for {
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		c.mu.Lock()
		for _, reply := range msg.Replies {
			if k := c.sent[reply.Number]; k != nil {
				delete(c.sent, reply.Number)
				c.finish(k, reply, nil)
			}
		}
		c.mu.Unlock()
	}
}

// failAll ends every call after a stream has ended, also waiting calls, so that their callers may look elsewhere.
func (c *Client) failAll(cause error) {
	if cause == nil {
		cause = errors.New("the stream ended")
	}
	// The other node ends a stream cleanly only after it has answered every call that it has begun.
	refused := errors.Is(cause, io.EOF) || c.cfg.Refused(cause)
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, k := range c.sent {
		delete(c.sent, number)
		if refused {
			c.finish(k, nil, notSent(c.cfg.Node, cause))
		} else {
			c.finish(k, nil, unanswered(c.cfg.Node, k.repeatable, cause))
		}
	}
	for !c.waiting.empty() {
		c.finish(c.waiting.take(), nil, notSent(c.cfg.Node, cause))
	}
}
