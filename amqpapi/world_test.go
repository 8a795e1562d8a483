package amqpapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/internal/amqpwire"
	"github.com/belfryhq/belfry/internal/assert"
)

// world is a server between amqp091-go and a broker, with an API. All run in a bubble.
type world struct {
	t      *testing.T
	server *Server
	broker *broker
	api    *api
	accept chan net.Conn
}

func within(t *testing.T, run func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, broker: &broker{t: t, declared: map[string]string{}, forbidden: map[string]bool{}, heartbeat: 10},
			api: &api{statuses: map[string]int{}}, accept: make(chan net.Conn)}
		var err error
		w.server, err = New(Config{API: w.api, Broker: "amqp://rabbit:5672", Dial: w.broker.dial})
		assert.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- w.server.Serve(pipes{w.accept, w.server.ctx}) }()
		defer func() {
			w.server.Close()
			assert.NoError(t, <-served)
		}()
		run(w)
	})
}

// pipes is a listener of connections in memory.
type pipes struct {
	accept chan net.Conn
	ctx    context.Context
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (w *world) connect() net.Conn {
	near, far := net.Pipe()
	w.accept <- far
	return near
}

func (w *world) dial() *wire.Connection {
	w.t.Helper()
	c, err := wire.Open(w.connect(), wire.Config{
		SASL: []wire.Authentication{&wire.PlainAuth{Username: "u", Password: "p"}}, Vhost: "shop/eu", Locale: "en_US",
	})
	assert.NoError(w.t, err)
	return c
}

func (w *world) channel(c *wire.Connection, confirm bool) *producer {
	w.t.Helper()
	ch, err := c.Channel()
	assert.NoError(w.t, err)
	out := &producer{t: w.t, Channel: ch, closed: ch.NotifyClose(make(chan *wire.Error, 1))}
	if confirm {
		assert.NoError(w.t, ch.Confirm(false))
	}
	return out
}

// producer is a channel of amqp091-go.
type producer struct {
	t *testing.T
	*wire.Channel
	closed chan *wire.Error
}

func (c *producer) publish(exchange string, headers wire.Table, body string) *wire.DeferredConfirmation {
	c.t.Helper()
	d, err := c.PublishWithDeferredConfirm(exchange, "k", false, false, wire.Publishing{Headers: headers, Body: []byte(body),
		ContentType: "text/plain"})
	assert.NoError(c.t, err)
	return d
}

// requireClosed waits until the channel is closed with a code and a text.
func (c *producer) requireClosed(code int, text string) {
	c.t.Helper()
	err := <-c.closed
	if err == nil || err.Code != code || !strings.Contains(err.Reason, text) {
		c.t.Errorf("closed with %v, want %d and %q", err, code, text)
	}
}

// api answers batches, as the API of a node does. A status of an id refuses its task.
type api struct {
	mu       sync.Mutex
	tasks    []map[string]any
	statuses map[string]int
	hold     chan struct{} // non-nil: answers wait until it is closed
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	hold := a.hold
	a.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	lines := bufio.NewReader(r.Body)
	w.Header().Set("Content-Type", "application/x-ndjson")
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return
		}
		var task map[string]any
		if err := json.Unmarshal(line, &task); err != nil {
			panic(err)
		}
		id := task["id"].(string)
		a.mu.Lock()
		status := a.statuses[id]
		if status == 0 {
			status = http.StatusCreated
			a.tasks = append(a.tasks, task)
		}
		a.mu.Unlock()
		problem := ""
		if status >= 300 {
			problem = fmt.Sprintf(`,"problem":{"type":"x","status":%d,"detail":"no %d"}`, status, status)
		}
		_, _ = fmt.Fprintf(w, `{"id":%q,"status":%d%s}`+"\n", id, status, problem)
	}
}

func (a *api) made() []map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks
}

// broker is a broker that knows exchanges and confirms. It confirms each second publish, and with it the one before.
type broker struct {
	t         *testing.T
	mu        sync.Mutex
	declared  map[string]string // exchange → type
	forbidden map[string]bool   // exchanges that nobody may write to
	published []string
	open      int
	heartbeat byte
	mute      bool // it sends nothing, and reads
}

func (b *broker) dial(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go b.serve(far)
	return near, nil
}

func (b *broker) beat(out *outbox, stop <-chan struct{}) {
	for {
		select {
		case <-time.After(time.Duration(b.heartbeat) * time.Second):
			b.mu.Lock()
			if !b.mute {
				out.add(amqpwire.AppendHeartbeat)
			}
			b.mu.Unlock()
		case <-stop:
			return
		}
	}
}

func (b *broker) serve(conn net.Conn) {
	defer conn.Close()
	b.mu.Lock()
	b.open++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.open--
		b.mu.Unlock()
	}()
	in, out := bufio.NewReader(conn), newOutbox(conn)
	var writer sync.WaitGroup
	writer.Go(func() { _ = out.write() }) // the reader sees it
	defer func() {
		out.end()
		writer.Wait()
	}()
	if b.heartbeat > 0 {
		stop := make(chan struct{})
		defer close(stop)
		go b.beat(out, stop)
	}
	if _, err := in.Discard(len(amqpwire.Protocol)); err != nil {
		return
	}
	send := func(channel uint16, m amqpwire.Method, arguments string) {
		out.add(func(d []byte) []byte {
			return amqpwire.AppendMethod(d, channel, m, func(d []byte) []byte { return append(d, arguments...) })
		})
	}
	send(0, amqpwire.ConnectionStart, "\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US")
	counts, confirms, publish, dead := map[uint16]uint64{}, map[uint16]bool{}, map[uint16][]byte{}, map[uint16]bool{}
	refuse := func(channel, code uint16, text string) {
		dead[channel] = true
		out.add(func(d []byte) []byte {
			return amqpwire.AppendMethod(d, channel, amqpwire.ChannelClose, amqpwire.Close{Code: code, Text: text}.Append)
		})
	}
	for {
		if b.heartbeat > 0 && conn.SetReadDeadline(time.Now().Add(25*time.Second)) != nil {
			return
		}
		f, err := amqpwire.ReadFrame(in, new([]byte), 1<<17)
		if err != nil {
			return
		}
		b.mu.Lock()
		mute := b.mute
		b.mu.Unlock()
		if dead[f.Channel] && f.Method() != amqpwire.ChannelCloseOk && f.Method() != amqpwire.ChannelClose || mute {
			continue
		}
		switch f.Method() {
		case amqpwire.ConnectionStartOk:
			send(0, amqpwire.ConnectionTune, "\x00\x09\x00\x01\x00\x00\x00"+string([]byte{b.heartbeat}))
		case amqpwire.ConnectionOpen:
			send(0, amqpwire.ConnectionOpen+1, "\x00")
		case amqpwire.ConnectionClose:
			send(0, amqpwire.ConnectionCloseOk, "")
			return
		case amqpwire.ChannelOpen:
			if f.Channel > 9 {
				b.t.Errorf("channel %d is opened, and 9 are agreed on", f.Channel)
			}
			counts[f.Channel], confirms[f.Channel] = 0, false
			send(f.Channel, amqpwire.ChannelOpenOk, "\x00\x00\x00\x00")
		case amqpwire.ChannelClose:
			dead[f.Channel] = false
			send(f.Channel, amqpwire.ChannelCloseOk, "")
		case amqpwire.ChannelCloseOk:
			dead[f.Channel] = false
		case amqpwire.ConfirmSelect:
			confirms[f.Channel] = true
			send(f.Channel, amqpwire.ConfirmSelect+1, "")
		case amqpwire.TxSelect:
			send(f.Channel, amqpwire.TxSelect+1, "")
		case amqpwire.ExchangeDeclare:
			d, err := readDeclare(f)
			if err != nil {
				b.t.Error(err)
			}
			b.mu.Lock()
			was := b.declared[d.exchange]
			if was == "" {
				b.declared[d.exchange] = d.kind
			}
			b.mu.Unlock()
			if was != "" && was != d.kind {
				refuse(f.Channel, 406, fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg 'type' for exchange '%s' in vhost "+
					"'/': received '%s' but current is '%s'", d.exchange, d.kind, was))
			} else {
				send(f.Channel, amqpwire.ExchangeDeclareOk, "")
			}
		case amqpwire.BasicPublish:
			publish[f.Channel] = f.Raw
		}
		if f.Type != amqpwire.HeaderFrame {
			continue
		}
		r := (amqpwire.Frame{Type: 1, Raw: publish[f.Channel]}).Arguments()
		_ = r.Uint16()
		exchange := r.Short()
		header, err := amqpwire.ReadContentHeader(f)
		p, err2 := amqpwire.ReadProperties(header.Properties)
		if err := errors.Join(err, err2); err != nil {
			b.t.Error(err)
		}
		b.mu.Lock()
		switch {
		case b.forbidden[exchange]:
			refuse(f.Channel, 403, "ACCESS_REFUSED - write access to exchange '"+exchange+"'")
		case p.Expiration == "none":
			refuse(f.Channel, 406, "PRECONDITION_FAILED - invalid expiration 'none': no_integer")
		default:
			b.published = append(b.published, fmt.Sprint(exchange, p.Headers))
			counts[f.Channel]++
			if n := counts[f.Channel]; confirms[f.Channel] && n%2 == 0 {
				send(f.Channel, amqpwire.BasicAck, string(append(binary.BigEndian.AppendUint64(nil, n), 1)))
			}
		}
		b.mu.Unlock()
	}
}
