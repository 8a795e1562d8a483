package broker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/internal/amqpwire"
)

// amqpChannel publishes messages with a confirm for each. Many may be in progress.
type amqpChannel struct {
	ch    *amqp.Channel
	users atomic.Int32
	turn  chan struct{} // received from after all earlier returns are noted
	gone  chan struct{} // closed after why is set
	why   error

	mu      sync.Mutex
	waiting map[string]*flight
}

// flight is a message that awaits its confirm.
type flight struct {
	returned string // why the broker returned the message; empty: it did not
}

func openChannel(conn *amqp.Connection) (*amqpChannel, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	c := &amqpChannel{ch: ch, turn: make(chan struct{}), gone: make(chan struct{}), waiting: map[string]*flight{}}
	// The channel has no buffer, so that the reader goes on to a message's confirm only after watch has taken its return.
	go c.watch(ch.NotifyReturn(make(chan amqp.Return)), ch.NotifyClose(make(chan *amqp.Error, 1)))
	if err := ch.Confirm(false); err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	return c, nil
}

func (c *amqpChannel) watch(returns <-chan amqp.Return, closed <-chan *amqp.Error) {
	defer close(c.gone)
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			c.note(r)
		case <-c.turn:
		case err := <-closed:
			c.why = amqpClosed(err)
			return
		}
	}
}

func (c *amqpChannel) closed() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// flightKey returns a key that is unique among the messages in progress: each grant has one attempt and its own fence.
func flightKey(id, fence any) string { return fmt.Sprintf("%v/%v", id, fence) }

func (c *amqpChannel) note(r amqp.Return) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.waiting[flightKey(r.Headers["webhook-id"], r.Headers["belfry-fence"])]; f != nil {
		f.returned = r.ReplyText
	}
}

func (c *amqpChannel) begin(key string) *flight {
	f := &flight{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[key] = f
	return f
}

// land forgets a flight and returns the reason why the broker returned its message, or "".
func (c *amqpChannel) land(key string, f *flight) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[key] == f {
		delete(c.waiting, key)
	}
	return f.returned
}

func (c *amqpChannel) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	key := flightKey(m.id, m.fence)
	f := c.begin(key)
	err := c.confirmed(ctx, t, m)
	if why := c.land(key, f); err == nil && why != "" {
		return failed("the broker cannot route the message: %s", worded(errors.New(why)).text)
	}
	return err
}

func (c *amqpChannel) confirmed(ctx context.Context, t *targeturl.Target, m *message) error {
	const mandatory, immediate = true, false
	p, err := publishing(m)
	if err != nil {
		return err
	}
	confirm, err := c.ch.PublishWithDeferredConfirm(t.Exchange, t.RoutingKey, mandatory, immediate, p)
	if err != nil {
		return c.unless(err)
	}
	select {
	case <-confirm.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	if !confirm.Acked() {
		return c.unless(failed("the broker did not take the message (nack)"))
	}
	select {
	case c.turn <- struct{}{}:
	case <-c.gone:
	}
	return nil
}

// unless returns the reason why the channel was closed, or err if the channel is open. The client marks the channel
// closed before it reports the reason, so unless waits for the reason.
func (c *amqpChannel) unless(err error) error {
	if !c.ch.IsClosed() {
		return err
	}
	<-c.gone
	return failed("the broker closed the channel: %s", worded(c.why).text)
}

// publishing returns the message as RabbitMQ gets it: with Belfry's properties, or with those that the task brings
// along.
func publishing(m *message) (amqp.Publishing, error) {
	headers := make(amqp.Table, len(m.headers))
	for _, h := range m.headers {
		if h.name == amqpwire.PropertiesHeader {
			return asPublished(m, h.value)
		}
		headers[h.name] = h.value
	}
	return amqp.Publishing{
		Headers: headers, ContentType: m.contentType, DeliveryMode: amqp.Persistent,
		MessageId: m.id, Timestamp: m.at, AppId: "belfry", Body: m.payload,
	}, nil
}

// asPublished returns a message with the properties that it was published with, and with the headers of Belfry that a
// consumer needs to recognise a repeat. It leaves out the user, which the broker compares with that of the connection:
// the node's.
func asPublished(m *message, properties string) (amqp.Publishing, error) {
	data, err := base64.StdEncoding.DecodeString(properties)
	if err != nil {
		return amqp.Publishing{}, hopeless("the header %s is not base64", amqpwire.PropertiesHeader)
	}
	p, err := amqpwire.ReadProperties(data)
	if err != nil {
		return amqp.Publishing{}, hopeless("the header %s: %s", amqpwire.PropertiesHeader, err)
	}
	if p.Headers == nil {
		p.Headers = amqp.Table{}
	}
	amqpwire.Delayed(p.Headers)
	for _, h := range m.headers {
		if strings.HasPrefix(h.name, "webhook-") || strings.HasPrefix(h.name, "belfry-") {
			p.Headers[h.name] = h.value
		}
	}
	p.UserId, p.Body = "", m.payload
	return p, nil
}
