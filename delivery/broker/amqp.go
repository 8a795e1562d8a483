package broker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

const (
	amqpHeartbeat   = 10 * time.Second // as RabbitMQ advises; three missed beats end a connection
	amqpMaxChannels = 128              // of one connection
	amqpMaxName     = 255              // bytes
	amqpCloseTime   = 2 * time.Second
)

// amqpLink publishes over one connection with a channel for each exchange. If an exchange is missing or not writable,
// the broker closes the channel and ends all messages in progress on it, so each exchange has a channel of its own.
type amqpLink struct {
	life
	conn    *amqp.Connection
	blocked atomic.Pointer[string] // why the broker takes no messages at present

	mu       sync.Mutex
	channels map[string]*amqpChannel // by exchange
}

func openAMQP(ctx context.Context, e *endpoint) (link, error) {
	raw, err := e.connect(ctx, "tcp", e.target.Hosts[0])
	if err != nil {
		return nil, worded(err)
	}
	// amqp.Open takes no context, so the context's end closes the connection.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // amqp.Open reports the error
	conn, err := amqp.Open(untilWritten{raw, e.cfg.ConnectTimeout}, amqpConfig(e))
	if err != nil {
		_ = raw.Close() // the handshake's error tells more
		return nil, amqpWelcome(ctx, err)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	l := &amqpLink{life: newLife(), conn: conn, channels: map[string]*amqpChannel{}}
	go l.watch(conn.NotifyClose(make(chan *amqp.Error, 1)), conn.NotifyBlocked(make(chan amqp.Blocking, 1)))
	return l, nil
}

func amqpConfig(e *endpoint) amqp.Config {
	login := &amqp.PlainAuth{Username: "guest", Password: "guest"} // the default of every AMQP client
	if e.access.User != "" {
		login = &amqp.PlainAuth{Username: e.access.User, Password: e.access.Password}
	}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("belfry/" + e.cfg.Version)
	return amqp.Config{
		SASL: []amqp.Authentication{login}, Vhost: e.target.VHost, Heartbeat: amqpHeartbeat,
		ChannelMax: amqpMaxChannels, Properties: properties, Locale: "en_US",
	}
}

// amqpWelcome words the error of a failed handshake.
func amqpWelcome(ctx context.Context, err error) error {
	var reply *amqp.Error
	switch {
	case ctx.Err() != nil:
		return context.DeadlineExceeded
	case errors.As(err, &reply):
		return failed("the broker refused the connection: %s", worded(errors.New(reply.Reason)).text)
	}
	return worded(err)
}

// watch follows the connection's state until the connection ends.
func (l *amqpLink) watch(closed <-chan *amqp.Error, blocked <-chan amqp.Blocking) {
	for {
		select {
		case err := <-closed:
			l.end(amqpClosed(err))
			return
		case b, ok := <-blocked:
			switch {
			case !ok:
				blocked = nil
			case b.Active:
				l.blocked.Store(&b.Reason)
			default:
				l.blocked.Store(nil)
			}
		}
	}
}

// amqpClosed words the reason why the broker closed a connection or a channel. A nil err means that this node closed
// it.
func amqpClosed(err *amqp.Error) error {
	if err == nil {
		return errClosed
	}
	return worded(errors.New(err.Reason))
}

func (l *amqpLink) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	if why := l.blocked.Load(); why != nil {
		return failed("the broker blocks publishers: %s", worded(errors.New(*why)).text)
	}
	if err := checkNames(m); err != nil {
		return err
	}
	c, err := l.channel(t.Exchange)
	if err != nil {
		return err
	}
	defer c.users.Add(-1)
	return c.publish(ctx, t, m)
}

// checkNames refuses a message that AMQP cannot carry: an attempt to send it would cost the connection and all messages
// in progress.
func checkNames(m *message) error {
	for _, h := range m.headers {
		if n := len(h.name); n > amqpMaxName {
			return hopeless("a header's name has %d bytes: AMQP takes %d", n, amqpMaxName)
		}
	}
	return nil
}

// channel returns the exchange's channel, and counts the caller as its user.
func (l *amqpLink) channel(exchange string) (*amqpChannel, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.channels[exchange]
	if c == nil || c.closed() {
		if !l.makeRoom() {
			return nil, failed("%d exchanges of this broker are in use already, the limit", amqpMaxChannels)
		}
		var err error
		if c, err = openChannel(l.conn); err != nil {
			return nil, worded(err)
		}
		l.channels[exchange] = c
	}
	c.users.Add(1)
	return c, nil
}

// makeRoom reports whether one more channel may be opened. It forgets closed channels, and closes one unused channel if
// all are open.
func (l *amqpLink) makeRoom() bool {
	for exchange, c := range l.channels {
		if c.closed() {
			delete(l.channels, exchange)
		}
	}
	if len(l.channels) < amqpMaxChannels {
		return true
	}
	for exchange, c := range l.channels {
		if c.users.Load() == 0 {
			delete(l.channels, exchange)
			return c.ch.Close() == nil
		}
	}
	return false
}

func (l *amqpLink) close(cause error) {
	l.end(cause)
	_ = l.conn.CloseDeadline(time.Now().Add(amqpCloseTime)) // lost already, or the broker does not answer
}
