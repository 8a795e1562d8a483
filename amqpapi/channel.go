package amqpapi

import (
	"encoding/binary"

	"github.com/belfryhq/belfry/internal/amqpwire"
)

// channel is one channel of a client. The session's mutex guards it, except for the two fields at its end.
type channel struct {
	number uint16
	life   int // counts the opens of this number
	confirms
	tx      bool
	pending int // kept messages without a result

	up, down half // towards the broker, and towards the client

	closing bool // the intake has closed the channel, and the client has not heard of it
	owed    int  // close-oks that the client owes the intake
	deaf    bool // the intake has closed the channel at the broker, which has not heard of it
	gone    bool // the broker has closed the channel

	method   []byte   // the frame of a publish whose content header comes next
	arriving *message // the kept message whose body comes next
}

// half is one direction of a channel. A method must not come between the frames of a message, so one of the intake's
// waits for the end of the message that is passed on.
type half struct {
	header bool   // the content header comes next
	left   uint64 // bytes of the body that come next
	after  []byte // frames that wait
}

func (h *half) amid() bool { return h.header || h.left > 0 }

// tell adds frames of the intake.
func (h *half) tell(out *outbox, frames func([]byte) []byte) {
	if h.amid() {
		h.after = frames(h.after)
		return
	}
	out.add(frames)
}

// pass adds a frame of the other peer, and those of the intake that have waited for it.
func (h *half) pass(out *outbox, f amqpwire.Frame) error {
	switch f.Type {
	case amqpwire.MethodFrame:
		h.header, h.left = hasContent(f.Method()), 0
	case amqpwire.HeaderFrame:
		content, err := amqpwire.ReadContentHeader(f)
		if err != nil {
			return err
		}
		h.header, h.left = false, content.Size
	case amqpwire.BodyFrame:
		h.left -= min(h.left, uint64(len(f.Payload())))
	}
	out.add(func(b []byte) []byte {
		b = append(b, f.Raw...)
		if !h.amid() {
			b = append(b, h.after...)
			h.after = nil
		}
		return b
	})
	return nil
}

// hasContent reports whether a message follows a method: publish, return, deliver or get-ok.
func hasContent(m amqpwire.Method) bool {
	switch m {
	case amqpwire.BasicPublish, 60<<16 | 50, 60<<16 | 60, 60<<16 | 71:
		return true
	}
	return false
}

// channel returns the channel of a number.
func (x *session) channel(number uint16) *channel {
	ch := x.channels[number]
	if ch == nil {
		ch = &channel{number: number}
		x.channels[number] = ch
	}
	return ch
}

// reopen makes a channel as a new one is, except for the closes that are not answered yet.
func (x *session) reopen(ch *channel) {
	x.forget(ch)
	ch.life++
	ch.confirms, ch.tx, ch.pending, ch.closing, ch.gone = confirms{}, false, 0, false, false
	ch.up, ch.down = half{}, half{}
}

// forget drops the confirms that a channel waits for.
func (x *session) forget(ch *channel) {
	x.unconfirmed -= len(ch.waiting)
	ch.waiting = nil
	x.wake.Broadcast()
}

// refuse closes a channel because of one of its methods, as a broker would. The caller holds the mutex.
func (x *session) refuse(ch *channel, why amqpwire.Close) {
	if ch.closing || ch.gone {
		return
	}
	ch.closing, ch.deaf = true, true
	ch.owed++
	x.forget(ch)
	ch.down.tell(x.client.out, func(b []byte) []byte {
		return amqpwire.AppendMethod(b, ch.number, amqpwire.ChannelClose, why.Append)
	})
	ch.up.tell(x.broker.out, func(b []byte) []byte {
		return amqpwire.AppendMethod(b, ch.number, amqpwire.ChannelClose, amqpwire.Close{Code: 200, Text: "OK"}.Append)
	})
}

// fromClient obeys a frame of the client, or passes it on. A returned error ends the session.
func (x *session) fromClient(f amqpwire.Frame) error {
	switch {
	case f.Type == amqpwire.HeartbeatFrame:
		return nil
	case f.Channel == 0:
		if f.Method() == amqpwire.ConnectionClose {
			x.await(func() bool { return x.pending == 0 })
		}
		x.broker.out.room()
		x.broker.out.add(func(b []byte) []byte { return append(b, f.Raw...) })
		return nil
	case f.Channel >= x.spare:
		x.abort(amqpwire.Close{Code: channelError, Text: "CHANNEL_ERROR - channel number above the limit"})
		return nil
	}
	x.broker.out.room()
	x.mu.Lock()
	defer x.mu.Unlock()
	ch := x.channel(f.Channel)
	switch {
	case ch.closing:
		return x.whileClosing(ch, f)
	case ch.arriving != nil:
		return x.body(ch, f)
	case ch.method != nil:
		return x.header(ch, f)
	}
	return x.method(ch, f)
}

// await waits until the condition holds or the broker is lost. It calls the condition with the mutex held.
func (x *session) await(holds func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.awaitLocked(holds)
}

func (x *session) awaitLocked(holds func() bool) {
	for !holds() && !x.lost {
		x.wake.Wait()
	}
}

// whileClosing handles a frame on a channel that the intake has closed: the rest of a message that the broker is
// passed, or the client's close. Others are dropped.
func (x *session) whileClosing(ch *channel, f amqpwire.Frame) error {
	x.drop(ch)
	if ch.up.amid() {
		if f.Type == amqpwire.MethodFrame {
			return x.unexpected()
		}
		return ch.up.pass(x.broker.out, f)
	}
	switch f.Method() {
	case amqpwire.ChannelClose: // it crossed the intake's
		ch.closing = false
		ch.down.tell(x.client.out, func(b []byte) []byte {
			return amqpwire.AppendMethod(b, ch.number, amqpwire.ChannelCloseOk, nil)
		})
	case amqpwire.ChannelCloseOk:
		ch.closing = false
		ch.owed--
	}
	return nil
}

func (x *session) unexpected() error {
	x.abort(amqpwire.Close{Code: unexpectedFrame, Text: "UNEXPECTED_FRAME - a frame of a message is missing"})
	return nil
}

// method handles a frame outside of messages.
func (x *session) method(ch *channel, f amqpwire.Frame) error {
	switch f.Method() {
	case amqpwire.ChannelOpen:
		x.reopen(ch)
	case amqpwire.ChannelClose:
		x.awaitLocked(func() bool { return ch.pending == 0 })
		if ch.closing {
			return x.whileClosing(ch, f)
		}
	case amqpwire.ChannelCloseOk:
		if ch.owed > 0 { // it crossed the client's own close
			ch.owed--
			return nil
		}
		ch.gone = false
	case amqpwire.ConfirmSelect:
		ch.on = true
	case amqpwire.TxSelect:
		ch.tx = true
	case amqpwire.ExchangeDeclare:
		if d, err := readDeclare(f); err != nil || d.delayed() && !ch.gone {
			return x.declare(ch, d, err)
		}
	case amqpwire.BasicPublish:
		x.awaitLocked(func() bool { return x.unconfirmed < maxUnconfirmed })
		ch.method = append(ch.method[:0:0], f.Raw...)
		return nil
	}
	return ch.up.pass(x.broker.out, f)
}

// header decides where a message goes.
func (x *session) header(ch *channel, f amqpwire.Frame) error {
	publish := amqpwire.Frame{Type: amqpwire.MethodFrame, Channel: ch.number, Raw: ch.method}
	ch.method = nil
	if f.Type != amqpwire.HeaderFrame {
		return x.unexpected()
	}
	m, why, err := x.messageOf(publish, f)
	switch {
	case err != nil:
		return err
	case ch.gone: // the broker would drop it
		return nil
	case why == nil && m != nil && ch.tx:
		why = &amqpwire.Close{Code: preconditionFailed, Method: amqpwire.BasicPublish,
			Text: "PRECONDITION_FAILED - a message with " + amqpwire.DelayHeader + " cannot be part of a transaction"}
	}
	if why != nil {
		x.s.metrics.messages.WithLabelValues(refused).Inc()
		x.refuse(ch, *why)
		return nil
	}
	if m == nil {
		x.counted(ch, ch.passed)
		if err := ch.up.pass(x.broker.out, publish); err != nil {
			return err
		}
		return ch.up.pass(x.broker.out, f)
	}
	m.ch, m.life = ch, ch.life
	x.mu.Unlock()
	room := x.reserve(m)
	x.mu.Lock()
	switch {
	case !room:
		x.s.metrics.messages.WithLabelValues(failed).Inc()
		x.refuse(ch, amqpwire.Close{Code: resourceError, Method: amqpwire.BasicPublish,
			Text: "RESOURCE_ERROR - too many messages wait to be stored"})
		return nil
	case ch.closing || ch.gone:
		x.free(m)
		return nil
	}
	x.counted(ch, func() { m.own = ch.confirms.kept() })
	ch.arriving = m
	return x.keepIfWhole(ch)
}

// counted calls a function that changes the number of unconfirmed publishes of a channel.
func (x *session) counted(ch *channel, change func()) {
	before := len(ch.waiting)
	change()
	if after := len(ch.waiting); after != before {
		x.unconfirmed += after - before
		x.wake.Broadcast()
	}
}

// body adds a part of the body of a kept message.
func (x *session) body(ch *channel, f amqpwire.Frame) error {
	m := ch.arriving
	if f.Type != amqpwire.BodyFrame || len(f.Payload()) > m.size-len(m.body) {
		return x.unexpected()
	}
	m.body = append(m.body, f.Payload()...)
	return x.keepIfWhole(ch)
}

// keepIfWhole hands a message over to be committed once it is whole.
func (x *session) keepIfWhole(ch *channel) error {
	m := ch.arriving
	if len(m.body) < m.size {
		return nil
	}
	ch.arriving = nil
	if ch.gone {
		x.free(m)
		return nil
	}
	x.pending++
	ch.pending++
	x.mu.Unlock()
	x.kept <- m // its reader ends after this goroutine
	x.mu.Lock()
	return nil
}

// drop forgets a message that has not arrived as a whole.
func (x *session) drop(ch *channel) {
	if ch.arriving != nil {
		x.free(ch.arriving)
	}
	ch.method, ch.arriving = nil, nil
}

// fromBroker passes on a frame of the broker, unless it concerns the intake alone.
func (x *session) fromBroker(f amqpwire.Frame) {
	switch {
	case f.Type == amqpwire.HeartbeatFrame:
		return
	case f.Channel == x.spare:
		x.answered(f)
		return
	case f.Channel == 0:
		x.client.out.add(func(b []byte) []byte { return append(b, f.Raw...) })
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	ch := x.channel(f.Channel)
	if ch.deaf {
		x.whileDeaf(ch, f)
		return
	}
	switch f.Method() {
	case amqpwire.ChannelClose:
		ch.gone = true
		x.forget(ch)
	case amqpwire.BasicAck, amqpwire.BasicNack:
		x.translate(ch, f)
		return
	}
	if err := ch.down.pass(x.client.out, f); err != nil {
		x.abort(amqpwire.Close{Code: internalError, Text: "INTERNAL_ERROR - the broker sent a malformed frame"})
	}
}

// whileDeaf handles a frame on a channel that the intake has closed at the broker: the rest of a message for the
// client, or the broker's close-ok. Others are dropped.
func (x *session) whileDeaf(ch *channel, f amqpwire.Frame) {
	switch {
	case ch.down.amid() && f.Type != amqpwire.MethodFrame:
		if err := ch.down.pass(x.client.out, f); err != nil {
			x.abort(amqpwire.Close{Code: internalError, Text: "INTERNAL_ERROR - the broker sent a malformed frame"})
		}
	case f.Method() == amqpwire.ChannelCloseOk:
		ch.deaf = false
	case f.Method() == amqpwire.ChannelClose: // it crossed the intake's
		x.broker.out.add(func(b []byte) []byte {
			return amqpwire.AppendMethod(b, ch.number, amqpwire.ChannelCloseOk, nil)
		})
	}
}

// translate passes on a confirm of the broker with the client's numbers.
func (x *session) translate(ch *channel, f amqpwire.Frame) {
	r := f.Arguments()
	tag, bits := r.Uint64(), r.Uint8()
	x.counted(ch, func() {
		for _, c := range ch.confirms.translate(nil, tag, bits&1 != 0) {
			x.confirm(ch, f.Method(), c)
		}
	})
}

// confirm tells the client the result of a publish.
func (x *session) confirm(ch *channel, m amqpwire.Method, c confirm) {
	ch.down.tell(x.client.out, func(b []byte) []byte {
		return amqpwire.AppendMethod(b, ch.number, m, func(b []byte) []byte {
			b = binary.BigEndian.AppendUint64(b, c.own)
			if c.multiple {
				return append(b, 1)
			}
			return append(b, 0)
		})
	})
}
