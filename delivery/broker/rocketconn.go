package broker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// maxRocketFrame is the largest answer that is read, in bytes: a route of some thousand brokers.
const maxRocketFrame = 1 << 20

var errNotRocketMQ = failed("the server does not speak RocketMQ's protocol")

// rocketConn is a connection to a name server or a broker. Many requests may wait for their answers, which may come in
// any order.
type rocketConn struct {
	life
	conn   net.Conn
	access *access

	writing sync.Mutex // for one request at a time

	mu      sync.Mutex
	last    int32 // number of a request
	waiting map[int32]chan *rocketAnswer
	used    time.Time
}

// rocketHead is the head of a request or an answer, in JSON.
type rocketHead struct {
	Code     int               `json:"code"`
	Flag     int               `json:"flag"` // of an answer: odd
	Language string            `json:"language,omitempty"`
	Opaque   int32             `json:"opaque"` // the request's number
	Version  int               `json:"version"`
	Remark   string            `json:"remark,omitempty"`
	Fields   map[string]string `json:"extFields,omitempty"`
}

// rocketVersion is the number of RocketMQ 5.0.0 among its versions.
const rocketVersion = 413

type rocketAnswer struct {
	rocketHead
	body []byte
}

// newRocketConn returns a connection that ends with the link, or when it is lost.
func newRocketConn(link context.Context, conn net.Conn, a *access) *rocketConn {
	c := &rocketConn{life: newLife(), conn: conn, access: a, waiting: map[int32]chan *rocketAnswer{}, used: time.Now()}
	context.AfterFunc(c.ctx, func() { _ = conn.Close() }) // the cause of its end is known
	stop := context.AfterFunc(link, func() { c.end(context.Cause(link)) })
	go func() {
		defer stop()
		c.end(c.read())
	}()
	return c
}

// usable reports whether a request may use the connection, and marks it as used. Servers close one without requests
// after two minutes.
func (c *rocketConn) usable(idle time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 && time.Since(c.used) > idle {
		c.end(errClosed)
	}
	c.used = time.Now()
	return c.ctx.Err() == nil
}

// call sends a request and returns the answer, whatever its code.
func (c *rocketConn) call(ctx context.Context, code int, fields map[string]string, body []byte) (*rocketAnswer, error) {
	answer := make(chan *rocketAnswer, 1)
	c.mu.Lock()
	c.last++
	number := c.last
	c.waiting[number] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, number)
	}()
	c.sign(fields, body)
	head := rocketHead{Code: code, Language: "GO", Opaque: number, Version: rocketVersion, Fields: fields}
	frame, err := rocketFrame(head, body)
	if err != nil {
		return nil, err
	}
	if err := c.write(frame); err != nil {
		c.end(err)
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ctx.Done():
	}
	select {
	case a := <-answer: // answered before the connection was lost
		return a, nil
	default:
		return nil, lostBy(c.ctx)
	}
}

func (c *rocketConn) write(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.conn.Write(frame)
	return err
}

// sign adds the access key and a signature by the secret key, if there are keys: of the values in the order of their
// names, and the body.
func (c *rocketConn) sign(fields map[string]string, body []byte) {
	if c.access.User == "" {
		return
	}
	fields["AccessKey"] = c.access.User
	mac := hmac.New(sha1.New, []byte(c.access.Password))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		mac.Write([]byte(fields[name]))
	}
	mac.Write(body)
	fields["Signature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// rocketFrame returns a request as it is sent: its length, the head's length, the head, the body.
func rocketFrame(head rocketHead, body []byte) ([]byte, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, 0, 8+len(text)+len(body))
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(text)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(text)))
	return append(append(frame, text...), body...), nil
}

// read hands each answer to its request, until the connection ends. Requests of the server are left alone: it may send
// some to a client that has announced itself, and this one does not.
func (c *rocketConn) read() error {
	in := bufio.NewReader(c.conn)
	for {
		a, err := readRocketAnswer(in)
		if err != nil {
			return err
		}
		if a.Flag&1 == 0 {
			continue
		}
		c.mu.Lock()
		waiting := c.waiting[a.Opaque]
		delete(c.waiting, a.Opaque)
		c.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
}

func readRocketAnswer(in io.Reader) (*rocketAnswer, error) {
	var lengths [8]byte
	if _, err := io.ReadFull(in, lengths[:]); err != nil {
		return nil, err
	}
	// The first byte of the head's length is the kind of its encoding: 0 is JSON.
	whole, head := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
	if whole < 4 || whole > maxRocketFrame || head > whole-4 {
		return nil, errNotRocketMQ
	}
	data := make([]byte, whole-4)
	if _, err := io.ReadFull(in, data); err != nil {
		return nil, err
	}
	a := &rocketAnswer{body: data[head:]}
	if err := json.NewDecoder(bytes.NewReader(data[:head])).Decode(&a.rocketHead); err != nil {
		return nil, errNotRocketMQ
	}
	return a, nil
}
