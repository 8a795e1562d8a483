package amqpwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrSyntax means that arguments, properties or a table cannot be read.
var ErrSyntax = errors.New("malformed arguments or properties")

const maxDepth = 32 // of tables and arrays

// Reader reads values one after the other. After an error it returns zero values.
type Reader struct {
	data []byte
	err  error
}

// NewReader returns a reader of data, which must not change. Texts and bytes that are read are copies.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Rest returns the bytes that are not read yet.
func (r *Reader) Rest() []byte { return r.data }

func (r *Reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.data)) {
		r.err = fmt.Errorf("%w: %d bytes are missing", ErrSyntax, n-uint64(len(r.data)))
	}
	if r.err != nil {
		return nil
	}
	taken := r.data[:n]
	r.data = r.data[n:]
	return taken
}

// number reads a number of at most 8 bytes.
func (r *Reader) number(bytes uint64) (n uint64) {
	for _, b := range r.take(bytes) {
		n = n<<8 | uint64(b)
	}
	return n
}

// Uint8 reads an octet.
func (r *Reader) Uint8() uint8 { return uint8(r.number(1)) }

// Uint16 reads a short.
func (r *Reader) Uint16() uint16 { return uint16(r.number(2)) }

// Uint32 reads a long.
func (r *Reader) Uint32() uint32 { return uint32(r.number(4)) }

// Uint64 reads a long long.
func (r *Reader) Uint64() uint64 { return r.number(8) }

// Short reads a text of at most 255 bytes.
func (r *Reader) Short() string { return string(r.take(r.number(1))) }

// Long reads a text of any length.
func (r *Reader) Long() string { return string(r.take(r.number(4))) }

// Table reads a table.
func (r *Reader) Table() amqp.Table { return r.table(0) }

func (r *Reader) table(depth int) amqp.Table {
	in, table := r.nested(depth), amqp.Table{}
	for in.err == nil && len(in.data) > 0 {
		name := in.Short()
		table[name] = in.field(depth)
	}
	r.err = errors.Join(r.err, in.err)
	return table
}

func (r *Reader) array(depth int) []any {
	in, list := r.nested(depth), []any{}
	for in.err == nil && len(in.data) > 0 {
		list = append(list, in.field(depth))
	}
	r.err = errors.Join(r.err, in.err)
	return list
}

// nested returns a reader of the content of a table or an array.
func (r *Reader) nested(depth int) *Reader {
	if depth > maxDepth && r.err == nil {
		r.err = fmt.Errorf("%w: tables are nested more than %d deep", ErrSyntax, maxDepth)
	}
	return &Reader{data: r.take(r.number(4)), err: r.err}
}

// field reads a value with its type, as RabbitMQ reads them.
func (r *Reader) field(depth int) any {
	switch kind := r.Uint8(); kind {
	case 't':
		return r.Uint8() != 0
	case 'b':
		return int8(r.Uint8())
	case 'B':
		return r.Uint8()
	case 's':
		return int16(r.Uint16())
	case 'u':
		return r.Uint16()
	case 'I':
		return int32(r.Uint32())
	case 'i':
		return r.Uint32()
	case 'l', 'L':
		return int64(r.Uint64())
	case 'f':
		return math.Float32frombits(r.Uint32())
	case 'd':
		return math.Float64frombits(r.Uint64())
	case 'D':
		return amqp.Decimal{Scale: r.Uint8(), Value: int32(r.Uint32())}
	case 'S':
		return r.Long()
	case 'x':
		return []byte(r.Long())
	case 'T':
		return time.Unix(int64(r.Uint64()), 0).UTC()
	case 'F':
		return r.table(depth + 1)
	case 'A':
		return r.array(depth + 1)
	case 'V':
	default:
		if r.err == nil {
			r.err = fmt.Errorf("%w: a value is of the type %q", ErrSyntax, kind)
		}
	}
	return nil
}

// The bits that tell which properties a message has, in their order.
const (
	HasContentType = 1 << (15 - iota)
	HasContentEncoding
	HasHeaders
	HasDeliveryMode
	HasPriority
	HasCorrelationID
	HasReplyTo
	HasExpiration
	HasMessageID
	HasTimestamp
	HasType
	HasUserID
	HasAppID
	HasClusterID
	unknownProperties = 1<<2 - 1
)

// ReadProperties reads the properties of a message: a content header without its class, weight and body size.
func ReadProperties(data []byte) (p amqp.Publishing, err error) {
	r := NewReader(data)
	flags := r.Uint16()
	has := func(bit uint16) bool { return flags&bit != 0 }
	short := func(bit uint16) (text string) {
		if has(bit) {
			text = r.Short()
		}
		return text
	}
	octet := func(bit uint16) (n uint8) {
		if has(bit) {
			n = r.Uint8()
		}
		return n
	}
	p.ContentType, p.ContentEncoding = short(HasContentType), short(HasContentEncoding)
	if has(HasHeaders) {
		p.Headers = r.Table()
	}
	p.DeliveryMode, p.Priority = octet(HasDeliveryMode), octet(HasPriority)
	p.CorrelationId, p.ReplyTo, p.Expiration = short(HasCorrelationID), short(HasReplyTo), short(HasExpiration)
	p.MessageId = short(HasMessageID)
	if has(HasTimestamp) {
		p.Timestamp = time.Unix(int64(r.Uint64()), 0).UTC()
	}
	p.Type, p.UserId, p.AppId = short(HasType), short(HasUserID), short(HasAppID)
	_ = short(HasClusterID) // reserved, and clients write none
	if r.err == nil && (flags&unknownProperties != 0 || len(r.data) > 0) {
		r.err = fmt.Errorf("%w: there are properties that AMQP 0-9-1 has not", ErrSyntax)
	}
	return p, r.err
}

// ContentHeader holds what a content header says.
type ContentHeader struct {
	Size       uint64 // of the body, in bytes
	Properties []byte // for ReadProperties; a part of the frame
}

// ReadContentHeader reads the content header of a message.
func ReadContentHeader(f Frame) (ContentHeader, error) {
	r := NewReader(f.Payload())
	_ = r.Uint32() // class and weight
	h := ContentHeader{Size: r.Uint64(), Properties: r.Rest()}
	return h, r.Err()
}

// AppendContentHeader appends the frame of a content header.
func AppendContentHeader(b []byte, channel uint16, h ContentHeader) []byte {
	return AppendFrame(b, HeaderFrame, channel, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, 60<<16) // the class basic
		return append(binary.BigEndian.AppendUint64(b, h.Size), h.Properties...)
	})
}
