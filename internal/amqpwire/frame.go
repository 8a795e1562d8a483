package amqpwire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The types of frames.
const (
	MethodFrame    = 1
	HeaderFrame    = 2
	BodyFrame      = 3
	HeartbeatFrame = 8
)

const (
	headBytes = 7 // type, channel, size
	frameEnd  = 0xCE
	// Overhead is the number of bytes of a frame beside its payload.
	Overhead = headBytes + 1
)

// Protocol is the header with which a client begins.
const Protocol = "AMQP\x00\x00\x09\x01"

// ErrFrame means that the bytes are no frame, or one that is too long.
var ErrFrame = errors.New("malformed frame")

// Frame is one frame. Raw holds all its bytes.
type Frame struct {
	Type    byte
	Channel uint16
	Raw     []byte
}

// Payload returns the bytes between the head and the end of the frame.
func (f Frame) Payload() []byte { return f.Raw[headBytes : len(f.Raw)-1] }

// Method returns the number of the method in a frame, its class in the upper half, and 0 in frames that have none.
func (f Frame) Method() Method {
	if f.Type != MethodFrame || len(f.Raw) < Overhead+4 {
		return 0
	}
	return Method(binary.BigEndian.Uint32(f.Raw[headBytes:]))
}

// Arguments returns a reader of the arguments of a method.
func (f Frame) Arguments() *Reader { return NewReader(f.Raw[headBytes+4 : len(f.Raw)-1]) }

// ReadFrame reads a frame of at most limit bytes into buffer, which it replaces by a longer one if need be. The frame
// is valid until the buffer is used again. An error that is no ErrFrame is that of r.
func ReadFrame(r *bufio.Reader, buffer *[]byte, limit int) (Frame, error) {
	head, err := r.Peek(headBytes)
	if err != nil {
		return Frame{}, err
	}
	size := int(binary.BigEndian.Uint32(head[3:])) + Overhead
	if size > limit {
		return Frame{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrFrame, size, limit)
	}
	if cap(*buffer) < size {
		*buffer = make([]byte, size)
	}
	raw := (*buffer)[:size]
	if _, err := io.ReadFull(r, raw); err != nil {
		return Frame{}, err
	}
	if raw[size-1] != frameEnd {
		return Frame{}, fmt.Errorf("%w: it does not end with 0xCE", ErrFrame)
	}
	return Frame{Type: raw[0], Channel: binary.BigEndian.Uint16(raw[1:]), Raw: raw}, nil
}

// AppendFrame appends a frame whose payload the function appends.
func AppendFrame(b []byte, kind byte, channel uint16, payload func([]byte) []byte) []byte {
	begin := len(b)
	b = append(b, kind, byte(channel>>8), byte(channel), 0, 0, 0, 0)
	b = payload(b)
	binary.BigEndian.PutUint32(b[begin+3:], uint32(len(b)-begin-headBytes))
	return append(b, frameEnd)
}

// AppendMethod appends a method frame whose arguments the function appends; nil: it has none.
func AppendMethod(b []byte, channel uint16, m Method, arguments func([]byte) []byte) []byte {
	return AppendFrame(b, MethodFrame, channel, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(m))
		if arguments != nil {
			b = arguments(b)
		}
		return b
	})
}

// AppendHeartbeat appends a heartbeat.
func AppendHeartbeat(b []byte) []byte {
	return AppendFrame(b, HeartbeatFrame, 0, func(b []byte) []byte { return b })
}

// AppendShort appends a text of at most 255 bytes. A longer one is cut.
func AppendShort(b []byte, text string) []byte {
	text = text[:min(len(text), 255)]
	return append(append(b, byte(len(text))), text...)
}

// Method is the number of a class and a method.
type Method uint32

// The methods that the package's users read or write.
const (
	ConnectionStart   Method = 10<<16 | 10
	ConnectionStartOk Method = 10<<16 | 11
	ConnectionTune    Method = 10<<16 | 30
	ConnectionTuneOk  Method = 10<<16 | 31
	ConnectionOpen    Method = 10<<16 | 40
	ConnectionClose   Method = 10<<16 | 50
	ConnectionCloseOk Method = 10<<16 | 51
	ChannelOpen       Method = 20<<16 | 10
	ChannelOpenOk     Method = 20<<16 | 11
	ChannelClose      Method = 20<<16 | 40
	ChannelCloseOk    Method = 20<<16 | 41
	ExchangeDeclare   Method = 40<<16 | 10
	ExchangeDeclareOk Method = 40<<16 | 11
	BasicPublish      Method = 60<<16 | 40
	BasicAck          Method = 60<<16 | 80
	BasicNack         Method = 60<<16 | 120
	ConfirmSelect     Method = 85<<16 | 10
	TxSelect          Method = 90<<16 | 10
)

// Close holds the arguments of connection.close and channel.close.
type Close struct {
	Code   uint16
	Text   string
	Method Method // that caused it; 0: none
}

// ReadClose reads the arguments of a close.
func ReadClose(r *Reader) (c Close, err error) {
	c = Close{Code: r.Uint16(), Text: r.Short(), Method: Method(r.Uint32())}
	return c, r.Err()
}

// Append appends the arguments of a close.
func (c Close) Append(b []byte) []byte {
	b = AppendShort(binary.BigEndian.AppendUint16(b, c.Code), c.Text)
	return binary.BigEndian.AppendUint32(b, uint32(c.Method))
}
