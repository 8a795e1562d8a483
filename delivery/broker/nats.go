package broker

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// natsPing is the interval of pings. A connection counts as dead after two pings without an answer.
const natsPing = 10 * time.Second

// natsTooLarge is the server's code for a message that is larger than its stream takes.
const natsTooLarge nats.ErrorCode = 10054

// natsLink publishes to JetStream. A message's Nats-Msg-Id is its webhook-id, so that a stream drops repeats within its
// duplicate window.
type natsLink struct {
	life
	conn   *nats.Conn
	stream nats.JetStream

	mu      sync.Mutex
	waiting map[*natsWait]struct{}
}

// natsWait is a message that awaits its acknowledgement.
type natsWait struct {
	subject string
	end     context.CancelCauseFunc
}

func openNATS(ctx context.Context, e *endpoint) (link, error) {
	l := &natsLink{life: newLife(), waiting: map[*natsWait]struct{}{}}
	var err error
	if l.conn, err = l.options(ctx, e).Connect(); err != nil {
		return nil, e.opening(err)
	}
	if l.stream, err = l.conn.JetStream(); err != nil {
		l.conn.Close()
		return nil, worded(err)
	}
	return l, nil
}

func (l *natsLink) options(ctx context.Context, e *endpoint) nats.Options {
	o := nats.GetDefaultOptions()
	for _, host := range e.target.Hosts {
		o.Servers = append(o.Servers, "nats://"+host)
	}
	o.Name = "belfry/" + e.cfg.Version
	o.User, o.Password, o.Token = e.access.User, e.access.Password, e.access.Token
	o.CustomDialer, o.SkipHostLookup = natsDialer{ctx, e}, true
	o.IgnoreDiscoveredServers = true // discovered servers were not checked against the credentials
	o.AllowReconnect = false         // the pool opens another link
	o.Timeout, o.FlusherTimeout = e.cfg.ConnectTimeout, e.cfg.ConnectTimeout
	o.PingInterval, o.MaxPingsOut = natsPing, 2
	o.Secure, o.TLSConfig = e.access.tls != nil, e.access.tls
	o.AsyncErrorCB = l.complained
	o.ClosedCB = func(c *nats.Conn) { l.end(closedBy(c.LastError())) }
	return o
}

// closedBy returns err, or an error for a connection that closed without one.
func closedBy(err error) error {
	if err == nil {
		return errors.New("the broker closed the connection")
	}
	return err
}

// natsDialer dials within the context of the link's opening, since the client takes no context.
type natsDialer struct {
	ctx context.Context
	e   *endpoint
}

func (d natsDialer) Dial(network, address string) (net.Conn, error) {
	return d.e.plain(d.ctx, network, address)
}

// complained ends the wait for messages that the broker does not allow. The broker reports the subject only, and does
// not answer the message.
func (l *natsLink) complained(_ *nats.Conn, _ *nats.Subscription, err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	text := strings.ToLower(err.Error())
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.waiting {
		if strings.Contains(text, strconv.Quote(strings.ToLower(w.subject))) {
			w.end(failed("the broker does not allow to publish to subject %q", w.subject))
		}
	}
}

// begin returns a context that also ends with the link, or when the broker reports that the subject is not allowed.
func (l *natsLink) begin(ctx context.Context, subject string) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { end(context.Cause(l.ctx)) })
	w := &natsWait{subject, end}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[w] = struct{}{}
	return ctx, func() {
		l.mu.Lock()
		delete(l.waiting, w)
		l.mu.Unlock()
		stop()
		end(nil)
	}
}

func (l *natsLink) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	ctx, release := l.begin(ctx, t.Subject)
	defer release()
	msg := &nats.Msg{Subject: t.Subject, Data: m.payload, Header: make(nats.Header, len(m.headers)+1)}
	for _, h := range m.headers {
		msg.Header[h.name] = []string{h.value}
	}
	_, err := l.stream.PublishMsg(msg, nats.Context(ctx), nats.MsgId(m.id), nats.RetryAttempts(0))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.judge(t.Subject, err)
}

func (l *natsLink) judge(subject string, err error) error {
	var reply *nats.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrNoStreamResponse):
		return failed("no stream takes subject %q, or JetStream is off", subject)
	case errors.Is(err, nats.ErrMaxPayload):
		return hopeless("the message is larger than the broker takes (%d bytes)", l.conn.MaxPayload())
	case errors.As(err, &reply) && reply.ErrorCode == natsTooLarge:
		return hopeless("the message is larger than the stream takes")
	case errors.As(err, &reply):
		return refusal(errors.New(reply.Description))
	}
	return err
}

func (l *natsLink) close(cause error) {
	l.end(cause)
	l.conn.Close()
}
