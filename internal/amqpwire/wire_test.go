package amqpwire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// publishedBy returns the frames that amqp091-go writes for a message: the method, the header and the body.
func publishedBy(t testing.TB, p amqp.Publishing) (frames []Frame) {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	written := make(chan []Frame, 1)
	go func() { written <- welcome(far) }()
	c, err := amqp.Open(near, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{}}, Vhost: "/", Locale: "en_US"})
	if err != nil {
		t.Fatal(err)
	}
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Publish("events", "key", true, false, p); err != nil {
		t.Fatal(err)
	}
	near.Close()
	return <-written
}

// welcome answers a client until its channel is open, and returns the frames after that.
func welcome(conn net.Conn) (frames []Frame) {
	in := bufio.NewReader(conn)
	_, _ = in.Discard(len(Protocol)) // a failure shows in the client
	send := func(channel uint16, m Method, arguments string) {
		_, _ = conn.Write(AppendMethod(nil, channel, m, func(b []byte) []byte { return append(b, arguments...) }))
	}
	send(0, ConnectionStart, "\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US")
	for {
		f, err := ReadFrame(in, new([]byte), 1<<17)
		switch {
		case err != nil:
			return frames
		case f.Method() == ConnectionStartOk:
			send(0, ConnectionTune, "\x00\x09\x00\x01\x00\x00\x00\x00")
		case f.Method() == ConnectionOpen:
			send(0, ConnectionOpen+1, "\x00")
		case f.Method() == ChannelOpen:
			send(1, ChannelOpenOk, "\x00\x00\x00\x00")
		case f.Channel == 1:
			frames = append(frames, f)
		}
	}
}

// TestProperties reads the properties that a client writes, with values of all types.
func TestProperties(t *testing.T) {
	at := time.Unix(1764600000, 0).UTC()
	want := amqp.Publishing{
		Headers: amqp.Table{
			"bool": true, "int8": int8(-3), "uint8": uint8(200), "int16": int16(-300), "uint16": uint16(60000),
			"int32": int32(-70000), "uint32": uint32(4e9), "int64": int64(-5e12), "float32": float32(1.5),
			"float64": -2.25, "decimal": amqp.Decimal{Scale: 2, Value: 1234}, "text": "ä", "bytes": []byte{0, 255},
			"time": at, "none": nil, "list": []any{int32(1), "two", []any{}}, "table": amqp.Table{"x": amqp.Table{"y": true}},
		},
		ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 7, CorrelationId: "c", ReplyTo: "r",
		Expiration: "60000", MessageId: "m", Timestamp: at, Type: "t", UserId: "u", AppId: "a",
	}
	full := want
	full.Body = []byte("body")
	frames := publishedBy(t, full)
	if len(frames) != 3 || frames[0].Method() != BasicPublish || frames[2].Type != BodyFrame {
		t.Fatalf("frames %+v", frames)
	}
	header, err := ReadContentHeader(frames[1])
	if err != nil || header.Size != 4 {
		t.Fatalf("header %+v, %v", header, err)
	}
	got, err := ReadProperties(header.Properties)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	again := AppendContentHeader(nil, 1, header)
	if !bytes.Equal(again, frames[1].Raw) {
		t.Errorf("written again: %x, want %x", again, frames[1].Raw)
	}
	for n := range header.Properties {
		if _, err := ReadProperties(header.Properties[:n]); !errors.Is(err, ErrSyntax) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(header.Properties), err)
		}
	}
	if _, err := ReadProperties(append(header.Properties, 0)); !errors.Is(err, ErrSyntax) {
		t.Errorf("with one byte more: %v", err)
	}
}

func TestDeepTable(t *testing.T) {
	data := []byte{}
	for range 1000 {
		data = append([]byte{1, 'x', 'F', byte(len(data) >> 24), byte(len(data) >> 16), byte(len(data) >> 8), byte(len(data))},
			data...)
	}
	r := NewReader(append([]byte{0, 0, byte(len(data) >> 8), byte(len(data))}, data...))
	if r.Table(); !errors.Is(r.Err(), ErrSyntax) || !strings.Contains(r.Err().Error(), "32 deep") {
		t.Error(r.Err())
	}
}

func TestFrames(t *testing.T) {
	long := AppendFrame(nil, BodyFrame, 3, func(b []byte) []byte { return append(b, make([]byte, 93)...) })
	broken := bytes.Clone(long)
	broken[len(broken)-1] = 0
	for name, c := range map[string]struct {
		data  []byte
		limit int
		err   error
	}{
		"a frame":        {long, 101, nil},
		"too long":       {long, 100, ErrFrame},
		"no end":         {broken, 101, ErrFrame},
		"cut":            {long[:50], 101, io.ErrUnexpectedEOF},
		"cut head":       {long[:5], 101, io.EOF},
		"a huge length":  {[]byte{1, 0, 1, 255, 255, 255, 255, 0}, 1 << 17, ErrFrame},
		"HTTP":           {[]byte("GET / HTTP/1.1\r\n"), 1 << 17, ErrFrame},
		"only a payload": {[]byte{8, 0, 0, 0, 0, 0, 0, 0xCE}, 8, nil},
	} {
		f, err := ReadFrame(bufio.NewReader(bytes.NewReader(c.data)), new([]byte), c.limit)
		if !errors.Is(err, c.err) || err == nil && !bytes.Equal(f.Raw, c.data) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		value any
		ms    int64
		after any // once the message was delayed
	}{
		{int8(5), 5, int32(-5)}, {uint8(5), 5, int32(-5)}, {int16(5), 5, int32(-5)}, {uint16(5), 5, int32(-5)},
		{int32(5), 5, int32(-5)}, {uint32(4e9), 4e9, int64(-4e9)}, {int64(5), 5, int32(-5)}, {"5", 5, int32(-5)},
		{4.1, 5, int32(-5)}, {float32(5), 5, int32(-5)}, {int32(-5), -5, int32(-5)}, {"-5", -5, "-5"}, {0, 0, 0},
		{nil, 0, nil},
	} {
		if c.value == 0 {
			c.value, c.after = int32(0), int32(0)
		}
		headers := amqp.Table{DelayHeader: c.value}
		ms, err := Delay(headers)
		if Delayed(headers); err != nil || ms != c.ms || headers[DelayHeader] != c.after {
			t.Errorf("%T %v: %d, %v, then %T %v", c.value, c.value, ms, err, headers[DelayHeader], headers[DelayHeader])
		}
	}
	for _, value := range []any{"5s", "", true, amqp.Table{}, []any{int32(5)}, math.NaN(), math.Inf(1), 1e300} {
		headers := amqp.Table{DelayHeader: value}
		if ms, err := Delay(headers); err == nil {
			t.Errorf("%T %v is read as %d", value, value, ms)
		}
		Delayed(headers)
	}
}

// FuzzReadProperties checks that no bytes make the reader panic, and that whatever it reads can be written by the client
// and read again.
func FuzzReadProperties(f *testing.F) {
	for _, p := range []amqp.Publishing{
		{}, {Headers: amqp.Table{"x-delay": int32(5), "list": []any{int8(1), nil}}, Expiration: "5"},
		{Headers: amqp.Table{"a": amqp.Table{"b": amqp.Decimal{Scale: 1, Value: 2}}}, UserId: "u", Timestamp: time.Unix(5, 0)},
	} {
		header, err := ReadContentHeader(publishedBy(f, p)[1])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(header.Properties)
	}
	f.Add([]byte{0x20, 0, 0, 0, 0, 2, 1, 'x', 'F'})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadProperties(data)
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Fatal(err)
			}
			return
		}
		if p.Headers.Validate() != nil { // such as a decimal with a scale that the client does not write
			return
		}
		_, _ = Delay(p.Headers)
		Delayed(p.Headers)
	})
}

// FuzzReadFrame checks that a frame is never longer than the limit, and that its arguments can be asked for.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte(Protocol))
	f.Add(AppendHeartbeat(nil))
	f.Add(AppendMethod(nil, 1, ChannelClose, Close{Code: 406, Text: "PRECONDITION_FAILED", Method: BasicPublish}.Append))
	f.Add(AppendContentHeader(nil, 1, ContentHeader{Size: 5, Properties: []byte{0, 0}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, buffer := bufio.NewReader(bytes.NewReader(data)), []byte(nil)
		for {
			frame, err := ReadFrame(in, &buffer, 4096)
			if err != nil {
				return
			}
			if len(frame.Raw) > 4096 || len(buffer) > 4096 {
				t.Fatalf("%d bytes", len(frame.Raw))
			}
			if frame.Method() != 0 {
				_, _ = ReadClose(frame.Arguments())
			}
			_, _ = ReadContentHeader(frame)
		}
	})
}
