package amqpapi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/internal/amqpwire"
)

const (
	openTime = 20 * time.Second // for a client to open its connection
	// maxFrame is the longest frame that the intake lets the peers agree on: RabbitMQ's own default.
	maxFrame = 128 << 10
	// maxChannel is the highest number of a channel that the intake lets the peers agree on.
	maxChannel = 1<<16 - 1
)

// errRefused means that the broker refused the connection. The client knows the reason.
var errRefused = errors.New("the broker refused the connection")

// greet reads the header with which a client begins. A client of another protocol is told this one.
func (x *session) greet() error {
	var header [len(amqpwire.Protocol)]byte
	if _, err := io.ReadFull(x.client.in, header[:]); err != nil {
		return err
	}
	if string(header[:]) == amqpwire.Protocol {
		return nil
	}
	_, err := io.WriteString(x.client.conn, amqpwire.Protocol)
	return errors.Join(fmt.Errorf("the client begins with %q: the intake speaks AMQP 0-9-1 only", header[:]), err)
}

// shakeHands passes on the frames up to the opening of the connection, one in each direction in turn. The broker checks
// the client's credentials. The peers agree on frames that are not too long, and on one channel less than the broker
// allows, which is left to the intake.
func (x *session) shakeHands() error {
	if _, err := io.WriteString(x.broker.conn, amqpwire.Protocol); err != nil {
		return fmt.Errorf("the broker: %w", err)
	}
	for {
		f, err := x.broker.read(maxFrame)
		if err != nil {
			return fmt.Errorf("the broker: %w", err)
		}
		switch f.Method() {
		case amqpwire.ConnectionTune:
			return x.tune(f)
		case amqpwire.ConnectionClose:
			return x.refusedBy(f)
		}
		if err := x.swap(f); err != nil {
			return err
		}
	}
}

// swap passes on a frame of the broker, and the client's answer.
func (x *session) swap(f amqpwire.Frame) error {
	if _, err := x.client.conn.Write(f.Raw); err != nil {
		return err
	}
	answer, err := x.client.read(maxFrame)
	if err != nil {
		return err
	}
	if _, err = x.broker.conn.Write(answer.Raw); err != nil {
		return fmt.Errorf("the broker: %w", err)
	}
	return nil
}

// refusedBy passes on the broker's refusal, and the client's answer.
func (x *session) refusedBy(f amqpwire.Frame) error {
	if err := x.swap(f); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errRefused
}

// tune passes on the broker's limits, lowered, and then the limits that the client chooses and the vhost that it opens.
func (x *session) tune(f amqpwire.Frame) error {
	limits := readLimits(f)
	if limits.channels == 0 {
		limits.channels = maxChannel
	}
	limits.channels--
	if limits.frame == 0 || limits.frame > maxFrame {
		limits.frame = maxFrame
	}
	if _, err := x.client.conn.Write(limits.frameOf(amqpwire.ConnectionTune)); err != nil {
		return err
	}
	answer, err := x.client.read(maxFrame)
	if err != nil {
		return err
	}
	chosen := readLimits(answer)
	if chosen.channels == 0 {
		chosen.channels = limits.channels
	}
	if chosen.frame == 0 {
		chosen.frame = limits.frame
	}
	if answer.Method() != amqpwire.ConnectionTuneOk || chosen.channels > limits.channels || chosen.frame > limits.frame {
		return errors.New("the client does not keep to the limits of connection.tune")
	}
	chosen.channels++
	x.spare, x.limit, x.beat = chosen.channels, int(chosen.frame), time.Duration(chosen.heartbeat)*time.Second
	if _, err := x.broker.conn.Write(chosen.frameOf(amqpwire.ConnectionTuneOk)); err != nil {
		return fmt.Errorf("the broker: %w", err)
	}
	opening, err := x.client.read(x.limit)
	if err != nil {
		return err
	}
	if opening.Method() != amqpwire.ConnectionOpen {
		return errors.New("the client does not open its connection")
	}
	x.vhost = opening.Arguments().Short()
	if _, err := x.broker.conn.Write(opening.Raw); err != nil {
		return fmt.Errorf("the broker: %w", err)
	}
	return errors.Join(x.client.conn.SetDeadline(time.Time{}), x.broker.conn.SetDeadline(time.Time{}))
}

// limits are the arguments of connection.tune and tune-ok.
type limits struct {
	channels  uint16
	frame     uint32
	heartbeat uint16
}

func readLimits(f amqpwire.Frame) limits {
	if f.Method() == 0 {
		return limits{}
	}
	r := f.Arguments()
	return limits{r.Uint16(), r.Uint32(), r.Uint16()}
}

func (l limits) frameOf(m amqpwire.Method) []byte {
	return amqpwire.AppendMethod(nil, 0, m, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint16(b, l.channels)
		b = binary.BigEndian.AppendUint32(b, l.frame)
		return binary.BigEndian.AppendUint16(b, l.heartbeat)
	})
}
