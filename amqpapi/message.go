package amqpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	wire "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/amqpwire"
)

const (
	// idHeader is the header with the id of the task that a message becomes.
	idHeader = "x-belfry-id"
	// queueExchange is the exchange whose messages become tasks without a target, in the queue that the routing key names.
	queueExchange = "belfry.queues"
	// taskQueue is the queue of the other tasks.
	taskQueue = "amqp"
)

// message is a message that the intake keeps, to make a task of it.
type message struct {
	ch            *channel
	life          int    // of the channel
	own           uint64 // the client's number of the publish
	exchange, key string
	id            string
	delay         time.Duration
	header        []byte // the properties, as the client wrote them
	properties    wire.Publishing
	size          int // of the body
	body          []byte
}

// messageOf returns the message of a publish that the intake keeps, nil for one that the broker is passed, or the
// reason why the channel is closed.
func (x *session) messageOf(publish, header amqpwire.Frame) (*message, *amqpwire.Close, error) {
	content, err := amqpwire.ReadContentHeader(header)
	if err != nil {
		return nil, nil, err
	}
	m := &message{}
	r := publish.Arguments()
	_ = r.Uint16() // reserved
	m.exchange, m.key = r.Short(), r.Short()
	const immediate = 2
	if bits := r.Uint8(); r.Err() != nil || bits&immediate != 0 ||
		m.exchange != queueExchange && !bytes.Contains(content.Properties, []byte(amqpwire.DelayHeader)) {
		return nil, nil, nil // the broker says what is wrong, if anything is
	}
	if m.properties, err = amqpwire.ReadProperties(content.Properties); err != nil {
		return nil, nil, err
	}
	ms, err := amqpwire.Delay(m.properties.Headers)
	id, isText := m.properties.Headers[idHeader].(string)
	_, named := m.properties.Headers[idHeader]
	switch {
	case err != nil:
		return nil, wrong("the header " + err.Error()), nil
	case ms <= 0 && m.exchange != queueExchange:
		return nil, nil, nil
	case ms > int64(maxDelay/time.Millisecond):
		return nil, wrong(fmt.Sprintf("the header %s is %d: the limit is %d", amqpwire.DelayHeader, ms,
			maxDelay.Milliseconds())), nil
	case named && !isText:
		return nil, wrong("the header " + idHeader + " is no text"), nil
	case content.Size > maxBody:
		return nil, &amqpwire.Close{Code: contentTooLarge, Method: amqpwire.BasicPublish,
			Text: fmt.Sprintf("CONTENT_TOO_LARGE - a message with %s has %d bytes: the limit is %d", amqpwire.DelayHeader,
				content.Size, maxBody)}, nil
	}
	if m.id = id; !named {
		m.id = newID()
	}
	m.delay, m.size = time.Duration(max(ms, 0))*time.Millisecond, int(content.Size)
	m.header = bytes.Clone(content.Properties)
	return m, nil, nil
}

// maxDelay is the limit of a task's delay.
const maxDelay = 100 * 365 * 24 * time.Hour

func wrong(text string) *amqpwire.Close {
	return &amqpwire.Close{Code: preconditionFailed, Method: amqpwire.BasicPublish, Text: "PRECONDITION_FAILED - " + text}
}

// price is the number of bytes that a kept message counts for.
func (m *message) price() int64 { return int64(m.size + len(m.header) + 1<<10) }

// reserve waits until there is memory for a message. It reports whether there was in time.
func (x *session) reserve(m *message) bool {
	ctx, cancel := context.WithTimeout(x.s.ctx, heldTime)
	defer cancel()
	if x.memory.Acquire(ctx, m.price()) != nil {
		return false
	}
	if x.s.memory.Acquire(ctx, m.price()) != nil {
		x.memory.Release(m.price())
		return false
	}
	m.body = make([]byte, 0, m.size)
	return true
}

func (x *session) free(m *message) {
	x.memory.Release(m.price())
	x.s.memory.Release(m.price())
}

// task returns the task that the message becomes.
func (m *message) task(s *Server, vhost string) client.Task {
	t := client.Task{
		ID: m.id, Queue: taskQueue, Delay: m.delay, PayloadBytes: m.body, ContentType: m.properties.ContentType,
	}
	if m.exchange == queueExchange {
		t.Queue = m.key
		return t
	}
	t.Target = &client.Target{
		URL:     s.targetURL(vhost, m.exchange, m.key),
		Headers: map[string]string{amqpwire.PropertiesHeader: base64.StdEncoding.EncodeToString(m.header)},
	}
	return t
}

// commit makes tasks of the kept messages, and confirms them, until the client's connection has ended and all are done.
func (x *session) commit() {
	var batch []*message
	for m := range x.kept {
		batch = append(batch[:0], m)
		for more := true; more && len(batch) < heldMessages; {
			select {
			case m, ok := <-x.kept:
				if more = ok; ok {
					batch = append(batch, m)
				}
			default:
				more = false
			}
		}
		x.commitAll(batch)
	}
}

// commitAll makes tasks of messages. Those of a channel that was closed meanwhile are dropped, as a broker does.
func (x *session) commitAll(batch []*message) {
	allowed := make([]*message, 0, len(batch))
	for _, m := range batch {
		if x.live(m) && x.allowed(m) {
			allowed = append(allowed, m)
		} else {
			x.finish(m, nil)
		}
	}
	if len(allowed) == 0 {
		return
	}
	next := 0
	for result := range x.calls.Batch(x.s.commits, func(yield func(client.Op) bool) {
		for _, m := range allowed {
			if !yield(client.ScheduleOp(m.task(x.s, x.vhost))) {
				return
			}
		}
	}) {
		m := allowed[next]
		next++
		x.settle(m, result.Err)
	}
}

// live reports whether the channel of a message is still open.
func (x *session) live(m *message) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return m.ch.life == m.life && !m.ch.closing
}

// allowed reports whether the broker would take the message from the client. If not, it closes the channel.
func (x *session) allowed(m *message) bool {
	why, err := x.permit(m)
	if err != nil {
		why = &amqpwire.Close{Code: resourceError, Method: amqpwire.BasicPublish, Text: "RESOURCE_ERROR - " + err.Error()}
	}
	if why == nil {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.s.metrics.messages.WithLabelValues(refused).Inc()
	if m.ch.life == m.life {
		x.refuse(m.ch, *why)
	}
	return false
}

// finish tells the client the result of a kept message, unless its channel was closed, and frees it.
func (x *session) finish(m *message, tell func(*channel)) {
	x.free(m)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending--
	if m.ch.life == m.life {
		m.ch.pending--
		if tell != nil && !m.ch.closing {
			tell(m.ch)
		}
	}
	x.wake.Broadcast()
}

// settle confirms a kept message, or tells why there is no task of it.
func (x *session) settle(m *message, err error) {
	why, result := refusal(err), taken
	switch {
	case err == nil:
	case why.Code == resourceError:
		result = failed
		x.s.cfg.Logger.Warn("a message of an AMQP client was not taken", "task", m.id, "err", err)
	default:
		result = refused
	}
	x.s.metrics.messages.WithLabelValues(result).Inc()
	x.finish(m, func(ch *channel) {
		waits := false
		x.counted(ch, func() { waits = ch.committed(m.own) })
		switch {
		case result == taken && waits:
			x.confirm(ch, amqpwire.BasicAck, confirm{own: m.own})
		case result == taken:
		case result == failed && waits:
			x.confirm(ch, amqpwire.BasicNack, confirm{own: m.own})
		default:
			x.refuse(ch, why)
		}
	})
}

// refusal words the reason why there is no task as brokers do. Its code is resourceError if the same message may be
// taken later.
func refusal(err error) amqpwire.Close {
	c := amqpwire.Close{Code: resourceError, Method: amqpwire.BasicPublish}
	if err == nil {
		return c
	}
	var refused *client.Error
	name := "RESOURCE_ERROR"
	if errors.As(err, &refused) {
		err = refused
		switch refused.Status {
		case http.StatusRequestEntityTooLarge:
			c.Code, name = contentTooLarge, "CONTENT_TOO_LARGE"
		case http.StatusUnauthorized, http.StatusForbidden:
			c.Code, name = accessRefused, "ACCESS_REFUSED"
		case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
			c.Code, name = preconditionFailed, "PRECONDITION_FAILED"
		}
	}
	c.Text = name + " - " + err.Error()
	return c
}
