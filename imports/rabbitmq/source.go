package rabbitmq

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports"
)

// Options are the settings of a Source.
type Options struct {
	URL      string // amqp://user:password@host:port/vhost, or amqps:// for TLS
	Password string // in place of the URL's; empty: the URL's
	Target   string // the URL without a user, at which the nodes of Belfry reach the RabbitMQ; empty: URL
	Queue    string // from which messages are moved

	// The arguments of the queue.
	TTL        time.Duration // x-message-ttl; 0: each message has an expiration
	Exchange   string        // x-dead-letter-exchange; empty: the default exchange
	RoutingKey string        // x-dead-letter-routing-key; empty: that of the message

	FromNow bool   // the times to live begin now, whatever the messages say
	Lossy   bool   // leave out properties and headers that a target cannot carry; false: such messages are refused
	Prefix  string // of all ids
	Into    string // queue of all tasks; empty: "default"
}

// Source reads messages of a queue, and implements imports.Mover. It is for one goroutine.
type Source struct {
	o    Options
	conn *amqp.Connection
	ch   *amqp.Channel
	base string // of the targets
	now  func() time.Time
}

const connectTimeout = 30 * time.Second

var errURL = errors.New("the URL is not like amqp://host:5672/vhost, or amqps:// for TLS")

// Open connects to a RabbitMQ.
func Open(o Options) (*Source, error) {
	uri, err := amqp.ParseURI(o.URL)
	if err != nil {
		return nil, errURL // the error shows the password
	}
	uri.Password = cmp.Or(o.Password, uri.Password)
	s := &Source{o: o, now: time.Now}
	if s.base, err = baseOf(cmp.Or(o.Target, o.URL)); err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("belfry import")
	s.conn, err = amqp.DialConfig(uri.String(), amqp.Config{
		Vhost: uri.Vhost, Heartbeat: 10 * time.Second, Dial: amqp.DefaultDial(connectTimeout), Properties: properties,
	})
	if err != nil {
		return nil, fmt.Errorf("the RabbitMQ at %s: %s", addr, err.Error()) // not a dial of the cluster, to those who ask
	}
	if s.ch, err = s.conn.Channel(); err == nil {
		_, err = s.Count(context.Background())
	}
	if err != nil {
		return nil, fmt.Errorf("the RabbitMQ at %s: %w", addr, errors.Join(err, s.conn.Close()))
	}
	return s, nil
}

// baseOf returns the beginning of the targets' URLs.
func baseOf(text string) (string, error) {
	uri, err := amqp.ParseURI(text)
	if err != nil {
		return "", errURL
	}
	base := url.URL{Scheme: uri.Scheme, Host: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))}
	if uri.Vhost != "/" {
		return base.String() + "/" + url.PathEscape(uri.Vhost), nil
	}
	return base.String() + "/", nil
}

// Close ends the connection. Messages that were not finished return to their places in the queue.
func (s *Source) Close() error { return s.conn.Close() }

// Count returns the number of messages that wait in the queue.
func (s *Source) Count(context.Context) (int64, error) {
	q, err := s.ch.QueueDeclarePassive(s.o.Queue, false, false, false, false, nil)
	return int64(q.Messages), err
}

// Records implements imports.Source. The records are claimed by their reading.
func (s *Source) Records(ctx context.Context) iter.Seq2[imports.Record, error] {
	return func(yield func(imports.Record, error) bool) {
		for ctx.Err() == nil {
			m, there, err := s.ch.Get(s.o.Queue, false)
			if err != nil {
				yield(imports.Record{}, fmt.Errorf("the queue %s: %w", s.o.Queue, err))
				return
			}
			if !there || !yield(s.record(&m), nil) {
				return
			}
		}
	}
}

// Claim implements imports.Mover.
func (s *Source) Claim(_ context.Context, records []imports.Record) ([]bool, error) {
	return slices.Repeat([]bool{true}, len(records)), nil
}

// Finish implements imports.Mover.
func (s *Source) Finish(_ context.Context, records []imports.Record) error {
	for i := range records {
		if err := s.ch.Ack(records[i].Origin.(uint64), false); err != nil {
			return fmt.Errorf("acknowledging messages: %w", err)
		}
	}
	return nil
}

// GiveBack implements imports.Mover. The end of the connection returns the messages: at once, they would be read again.
func (s *Source) GiveBack(context.Context, []imports.Record) error { return nil }

// record makes a record of a message.
func (s *Source) record(m *amqp.Delivery) imports.Record {
	r := imports.Record{Text: string(m.Body), Origin: m.DeliveryTag}
	r.Key = s.o.Queue + ":" + cmp.Or(m.MessageId, rand.Text())
	r.Task = client.Task{ID: imports.StableID(s.o.Prefix, "rabbitmq:"+r.Key), Queue: s.o.Into}
	if r.Err = s.setDue(&r.Task, m); r.Err == nil {
		r.Err = s.setTarget(&r.Task, m)
	}
	setPayload(&r.Task, m)
	return r
}

var errNoTTL = errors.New("the message has no expiration: name the x-message-ttl of the queue")

// setDue sets the instant at which the time to live of a message ends.
func (s *Source) setDue(t *client.Task, m *amqp.Delivery) error {
	ttl := s.o.TTL
	if m.Expiration != "" {
		ms, err := strconv.ParseInt(m.Expiration, 10, 64)
		if err != nil {
			return fmt.Errorf("the expiration: %w", err)
		}
		if own := time.Duration(ms) * time.Millisecond; ttl == 0 || own < ttl {
			ttl = own
		}
	} else if ttl == 0 {
		return errNoTTL
	}
	t.FireAt = s.arrival(m).Add(ttl).Truncate(time.Millisecond)
	return nil
}

// arrival returns the instant at which a message came into the queue, or a later one.
func (s *Source) arrival(m *amqp.Delivery) time.Time {
	var at time.Time
	deaths, died := m.Headers["x-death"].([]any)
	switch ms, exact := m.Headers["timestamp_in_ms"].(int64); {
	case s.o.FromNow:
	case died:
		at = s.lastDeath(deaths)
	case exact:
		at = time.UnixMilli(ms)
	case !m.Timestamp.IsZero():
		at = m.Timestamp.Add(time.Second)
	}
	if now := s.now(); at.IsZero() || at.After(now.Add(time.Second)) {
		return now.Add(time.Millisecond)
	}
	return at
}

// lastDeath returns the instant at which a message was dead-lettered into the queue. It is zero if the queue itself was
// the last one: the message was published to it again. RabbitMQ tells the first death in a queue only.
func (s *Source) lastDeath(deaths []any) (at time.Time) {
	if len(deaths) == 0 {
		return at
	}
	last, _ := deaths[0].(amqp.Table)
	if at, known := last["time"].(time.Time); known && last["count"] == int64(1) && last["queue"] != s.o.Queue {
		return at.Add(time.Second)
	}
	return at
}

// ofBroker reports whether RabbitMQ sets a header.
func ofBroker(name string) bool {
	return name == "x-death" || name == "timestamp_in_ms" || name == "x-delivery-count" ||
		strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// setTarget sets a target that publishes where the message would be dead-lettered to, with its headers.
func (s *Source) setTarget(t *client.Task, m *amqp.Delivery) error {
	key := cmp.Or(s.o.RoutingKey, m.RoutingKey)
	query := url.Values{"exchange": {s.o.Exchange}, "routing_key": {key}}
	if s.o.Exchange == "" {
		query = url.Values{"queue": {key}}
	}
	t.Target = &client.Target{URL: s.base + "?" + query.Encode(), Headers: map[string]string{}}
	var lost []string
	for name, value := range m.Headers {
		text, isText := value.(string)
		switch {
		case ofBroker(name):
		case isText && name == strings.ToLower(name):
			t.Target.Headers[name] = text
		default:
			lost = append(lost, "header "+name)
		}
	}
	for name, set := range map[string]bool{
		"content_encoding": m.ContentEncoding != "", "priority": m.Priority != 0, "correlation_id": m.CorrelationId != "",
		"reply_to": m.ReplyTo != "", "type": m.Type != "", "user_id": m.UserId != "", "app_id": m.AppId != "",
	} {
		if set {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 && !s.o.Lossy {
		slices.Sort(lost)
		return fmt.Errorf("a target cannot carry %s: leave them out with --lossy", strings.Join(lost, ", "))
	}
	return nil
}

// setPayload sets the payload and its type.
func setPayload(t *client.Task, m *amqp.Delivery) {
	imports.SetPayload(t, m.Body)
	kind, _, _ := strings.Cut(strings.ToLower(m.ContentType), ";")
	isJSON := kind == "" || kind == "application/json" || strings.HasSuffix(kind, "+json")
	if t.Payload != nil && !isJSON {
		t.PayloadBytes, t.Payload = m.Body, nil
	}
	if len(m.Body) > 0 {
		t.ContentType = cmp.Or(m.ContentType, t.ContentType)
	}
}
