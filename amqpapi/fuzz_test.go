package amqpapi

import (
	"bufio"
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/amqpwire"
	"github.com/belfryhq/belfry/internal/assert"
)

// nowhere is a connection that is neither read nor written.
type nowhere struct{ net.Conn }

func (nowhere) SetWriteDeadline(time.Time) error { return nil }

// frames of a publish with the header x-delay, up to its body.
func publishFrames(channel uint16, size uint64) []byte {
	b := amqpwire.AppendMethod(nil, channel, amqpwire.BasicPublish, func(b []byte) []byte {
		return append(amqpwire.AppendShort(amqpwire.AppendShort(append(b, 0, 0), "events"), "k"), 0)
	})
	return amqpwire.AppendContentHeader(b, channel, amqpwire.ContentHeader{Size: size,
		Properties: []byte("\x20\x00\x00\x00\x00\x0d\x07x-delayI\x00\x00\x00\x05")})
}

func body(channel uint16, text string) []byte {
	return amqpwire.AppendFrame(nil, amqpwire.BodyFrame, channel, func(b []byte) []byte { return append(b, text...) })
}

// FuzzFrames checks that no frames of a client and of a broker stop a session or make it panic, that a peer is sent whole
// frames only, and that no kept message holds memory at the end.
func FuzzFrames(f *testing.F) {
	open := amqpwire.AppendMethod(nil, 1, amqpwire.ChannelOpen, func(b []byte) []byte { return append(b, 0) })
	confirm := amqpwire.AppendMethod(nil, 1, amqpwire.ConfirmSelect, func(b []byte) []byte { return append(b, 0) })
	shut := amqpwire.Close{Code: 200, Text: "bye"}
	closing := amqpwire.AppendMethod(nil, 1, amqpwire.ChannelClose, shut.Append)
	closed := amqpwire.AppendMethod(nil, 1, amqpwire.ChannelCloseOk, nil)
	ack := amqpwire.AppendMethod(nil, 1, amqpwire.BasicAck, func(b []byte) []byte { return append(b, 0, 0, 0, 0, 0, 0, 0, 9, 1) })
	declare := amqpwire.AppendMethod(nil, 1, amqpwire.ExchangeDeclare, func(b []byte) []byte {
		b = amqpwire.AppendShort(amqpwire.AppendShort(append(b, 0, 0), "events"), delayedType)
		return append(b, "\x02\x00\x00\x00\x1a\x0ex-delayed-typeS\x00\x00\x00\x06direct"...)
	})
	f.Add(bytes.Join([][]byte{open, confirm, publishFrames(1, 4), body(1, "bo"), body(1, "dy"), closing, open}, nil), ack)
	f.Add(bytes.Join([][]byte{open, publishFrames(1, 4), closing, closed}, nil), closing)
	f.Add(bytes.Join([][]byte{open, declare, publishFrames(1, 1<<20), body(1, "x"), closed}, nil), closed)
	f.Add(bytes.Join([][]byte{open, publishFrames(1, 0), publishFrames(2, 1), publishFrames(9, 1)}, nil), open)
	f.Fuzz(func(t *testing.T, said, answered []byte) {
		s, err := New(Config{Broker: "amqp://rabbit:5672"})
		assert.NoError(t, err)
		client, broker := nowhere{}, nowhere{}
		x := newSession(s, client)
		x.broker, x.spare, x.lost = newSide(broker), 9, true
		close(x.brokerLost)
		committed := make(chan struct{})
		go func() {
			defer close(committed)
			x.commit()
		}()
		for in := bufio.NewReader(bytes.NewReader(said)); !x.ending.Load(); {
			frame, err := amqpwire.ReadFrame(in, new([]byte), 4096)
			if err != nil || x.fromClient(frame) != nil {
				break
			}
		}
		for in := bufio.NewReader(bytes.NewReader(answered)); ; {
			frame, err := amqpwire.ReadFrame(in, new([]byte), 4096)
			if err != nil {
				break
			}
			x.fromBroker(frame)
		}
		close(x.kept)
		<-committed
		for _, ch := range x.channels {
			x.drop(ch)
		}
		if !x.memory.TryAcquire(heldPart) || !s.memory.TryAcquire(heldBytes) {
			t.Fatal("a message still holds memory")
		}
		for _, side := range []*side{x.client, x.broker} {
			in := bufio.NewReader(bytes.NewReader(side.out.data))
			for {
				if _, err := amqpwire.ReadFrame(in, new([]byte), 1<<20); err != nil {
					if _, more := in.Peek(1); more == nil {
						t.Fatalf("%v in %q", err, side.out.data)
					}
					break
				}
			}
		}
	})
}

// TestNothingBetweenParts checks that a confirm waits for the end of a message that the channel's consumer gets, and so
// does the close of a channel.
func TestNothingBetweenParts(t *testing.T) {
	s, err := New(Config{Broker: "amqp://rabbit:5672"})
	assert.NoError(t, err)
	x := newSession(s, nowhere{})
	x.broker, x.spare = newSide(nowhere{}), 9
	ch := x.channel(1)
	next := func(data []byte) amqpwire.Frame {
		f, err := amqpwire.ReadFrame(bufio.NewReader(bytes.NewReader(data)), new([]byte), 4096)
		assert.NoError(t, err)
		return f
	}
	deliver := amqpwire.AppendMethod(nil, 1, 60<<16|60, nil)
	header := amqpwire.AppendContentHeader(nil, 1, amqpwire.ContentHeader{Size: 4, Properties: []byte{0, 0}})
	x.fromBroker(next(deliver))
	x.mu.Lock()
	x.confirm(ch, amqpwire.BasicAck, confirm{own: 1})
	x.refuse(ch, amqpwire.Close{Code: 406})
	x.mu.Unlock()
	for _, part := range [][]byte{header, body(1, "bo"), body(1, "dy"), deliver, header, body(1, "late")} {
		x.fromBroker(next(part))
	}
	var methods []amqpwire.Method
	for in := bufio.NewReader(bytes.NewReader(x.client.out.data)); ; {
		f, err := amqpwire.ReadFrame(in, new([]byte), 4096)
		if err != nil {
			break
		}
		methods = append(methods, f.Method())
	}
	assert.EqualSlices(t, methods, []amqpwire.Method{60<<16 | 60, 0, 0, 0, amqpwire.BasicAck, amqpwire.ChannelClose})
}
