package amqpapi

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/belfryhq/belfry/internal/amqpwire"
)

// delayedType is the type of an exchange of RabbitMQ's plugin, and typeArgument the argument with the type of exchange
// that its messages go through.
const (
	delayedType  = "x-delayed-message"
	typeArgument = "x-delayed-type"
)

const (
	askTime      = 30 * time.Second
	maxPermitted = 4096 // kinds of publishes that a session remembers
)

// answer is the broker's answer to a question: a method, or the close of the channel.
type answer struct {
	method amqpwire.Method
	closed amqpwire.Close
}

var errUnanswered = errors.New("the broker did not answer")

// ask sends the broker a method on the intake's own channel, under the rights of the client, and returns the answer.
func (x *session) ask(question func(b []byte, channel uint16) []byte) (answer, error) {
	x.asking.Lock()
	defer x.asking.Unlock()
	x.broker.out.add(func(b []byte) []byte {
		if !x.spareOpen {
			b = amqpwire.AppendMethod(b, x.spare, amqpwire.ChannelOpen, func(b []byte) []byte { return append(b, 0) })
		}
		return question(b, x.spare)
	})
	late := time.NewTimer(askTime)
	defer late.Stop()
	select {
	case a := <-x.answers:
		x.spareOpen = a.method != amqpwire.ChannelClose
		return a, nil
	case <-x.brokerLost:
	case <-late.C: // an answer that comes yet would be taken for that of the next question
		x.abort(amqpwire.Close{Code: internalError, Text: "INTERNAL_ERROR - " + errUnanswered.Error()})
	}
	return answer{}, errUnanswered
}

// answered takes a frame on the intake's own channel.
func (x *session) answered(f amqpwire.Frame) {
	a := answer{method: f.Method()}
	switch a.method {
	case 0, amqpwire.ChannelOpenOk:
		return
	case amqpwire.ChannelClose:
		var err error
		if a.closed, err = amqpwire.ReadClose(f.Arguments()); err != nil {
			a.closed = amqpwire.Close{Code: internalError, Text: err.Error()}
		}
		x.broker.out.add(func(b []byte) []byte {
			return amqpwire.AppendMethod(b, x.spare, amqpwire.ChannelCloseOk, nil)
		})
	}
	select {
	case x.answers <- a:
	default: // nobody has asked
	}
}

// permit returns nil if the broker would take a publish of the client to an exchange, with a routing key and a user, or
// else the broker's refusal.
//
// It asks the broker with a publish whose expiration is no number. RabbitMQ checks the exchange and the client's rights
// first, and refuses the publish because of the expiration last, before any queue gets it.
func (x *session) permit(m *message) (*amqpwire.Close, error) {
	kind := strings.Join([]string{m.exchange, m.key, m.properties.UserId}, "\x00")
	if _, known := x.permitted[kind]; known {
		return nil, nil
	}
	a, err := x.ask(func(b []byte, channel uint16) []byte {
		b = amqpwire.AppendMethod(b, channel, amqpwire.BasicPublish, func(b []byte) []byte {
			b = amqpwire.AppendShort(append(b, 0, 0), m.exchange)
			return append(amqpwire.AppendShort(b, m.key), 0)
		})
		flags := uint16(amqpwire.HasExpiration)
		properties := amqpwire.AppendShort(nil, "none")
		if m.properties.UserId != "" {
			flags |= amqpwire.HasUserID
			properties = amqpwire.AppendShort(properties, m.properties.UserId)
		}
		properties = append(binary.BigEndian.AppendUint16(nil, flags), properties...)
		return amqpwire.AppendContentHeader(b, channel, amqpwire.ContentHeader{Properties: properties})
	})
	switch {
	case err != nil:
		return nil, err
	case a.closed.Code != preconditionFailed || !strings.Contains(a.closed.Text, "expiration"):
		return &a.closed, nil
	}
	if len(x.permitted) >= maxPermitted {
		clear(x.permitted)
	}
	x.permitted[kind] = struct{}{}
	return nil, nil
}

// declaration is an exchange.declare.
type declaration struct {
	exchange, kind  string
	bits            uint8
	arguments       []byte // a table, as the client wrote it
	passes          string // the type in its arguments
	passive, noWait bool
}

func readDeclare(f amqpwire.Frame) (d declaration, err error) {
	r := f.Arguments()
	_ = r.Uint16() // reserved
	d.exchange, d.kind, d.bits = r.Short(), r.Short(), r.Uint8()
	d.passive, d.noWait = d.bits&1 != 0, d.bits&16 != 0
	d.arguments = append(d.arguments, r.Rest()...)
	d.passes, _ = r.Table()[typeArgument].(string)
	return d, r.Err()
}

// delayed reports whether the exchange is one of RabbitMQ's plugin. A passive declare only asks whether it is there.
func (d *declaration) delayed() bool { return d.kind == delayedType && !d.passive }

// declare declares an exchange of RabbitMQ's plugin with the type in its arguments, on the intake's own channel. An
// exchange that the plugin still has is taken as it is. The caller holds the mutex, which is free while the broker is
// asked.
func (x *session) declare(ch *channel, d declaration, err error) error {
	if err != nil {
		return err
	}
	if d.passes == "" || d.passes == delayedType {
		x.refuse(ch, amqpwire.Close{Code: preconditionFailed, Method: amqpwire.ExchangeDeclare,
			Text: "PRECONDITION_FAILED - '" + typeArgument + "' must be an existing exchange type"})
		return nil
	}
	life := ch.life
	x.mu.Unlock()
	a, err := x.ask(func(b []byte, channel uint16) []byte {
		return amqpwire.AppendMethod(b, channel, amqpwire.ExchangeDeclare, func(b []byte) []byte {
			b = amqpwire.AppendShort(append(b, 0, 0), d.exchange)
			b = append(amqpwire.AppendShort(b, d.passes), d.bits&^16)
			return append(b, d.arguments...)
		})
	})
	x.mu.Lock()
	kept := a.method == amqpwire.ChannelClose && a.closed.Code == preconditionFailed &&
		strings.Contains(a.closed.Text, "'"+delayedType+"'")
	switch {
	case err != nil || ch.life != life || ch.closing || ch.gone:
	case a.method == amqpwire.ChannelClose && !kept:
		x.refuse(ch, a.closed)
	case !d.noWait:
		ch.down.tell(x.client.out, func(b []byte) []byte {
			return amqpwire.AppendMethod(b, ch.number, amqpwire.ExchangeDeclareOk, nil)
		})
	}
	return nil
}
