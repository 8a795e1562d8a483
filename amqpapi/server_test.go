package amqpapi

import (
	"encoding/base64"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/amqpwire"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestTasks checks the tasks that messages become, and that each message is confirmed once its task is committed.
func TestTasks(t *testing.T) {
	within(t, func(w *world) {
		ch := w.channel(w.dial(), true)
		w.api.hold = make(chan struct{})
		delayed := ch.publish("events", wire.Table{"x-delay": int32(5000), "x-belfry-id": "order-1", "n": int8(1)}, "late")
		first, second := ch.publish("events", nil, "now"), ch.publish("events", wire.Table{"x-delay": int32(-5)}, "now")
		assert.Equal(t, first.Wait() && second.Wait(), true)
		synctest.Wait()
		assert.Equal(t, delayed.Acked(), false)
		assert.Equal(t, len(w.api.made()), 0)
		close(w.api.hold)
		assert.Equal(t, delayed.Wait(), true)
		here := ch.publish("belfry.queues", nil, "here")
		queued := ch.publish("", wire.Table{"x-delay": "7"}, "")
		assert.Equal(t, here.Wait() && queued.Wait(), true)

		made := w.api.made()
		assert.MustEqual(t, len(made), 3)
		target := made[0]["target"].(map[string]any)
		raw, err := base64.StdEncoding.DecodeString(target["headers"].(map[string]any)["amqp-properties"].(string))
		assert.NoError(t, err)
		p, err := amqpwire.ReadProperties(raw)
		assert.NoError(t, err)
		assert.Equal(t, p.Headers["n"], any(int8(1)))
		assert.Equal(t, p.ContentType, "text/plain")
		assert.Equal(t, made[0]["id"], any("order-1"))
		assert.Equal(t, made[0]["queue"], any("amqp"))
		assert.Equal(t, made[0]["delay"], any("5s"))
		assert.Equal(t, made[0]["payload_base64"], any(base64.StdEncoding.EncodeToString([]byte("late"))))
		assert.Equal(t, target["url"], any("amqp://rabbit:5672/shop%2Feu?exchange=events&routing_key=k"))
		assert.Equal(t, made[1]["queue"], any("k"))
		assert.Equal(t, made[1]["target"], nil)
		assert.Equal(t, made[2]["target"].(map[string]any)["url"], any("amqp://rabbit:5672/shop%2Feu?queue=k"))
		assert.Equal(t, strings.HasPrefix(made[2]["id"].(string), "amqp-"), true)
		assert.EqualSlices(t, w.broker.published, []string{"eventsmap[]", "eventsmap[x-delay:-5]"})
	})
}

// TestManyConfirms mixes messages that are delayed and not on one channel. Each is confirmed once.
func TestManyConfirms(t *testing.T) {
	within(t, func(w *world) {
		ch := w.channel(w.dial(), true)
		r := rand.New(rand.NewPCG(1, 2))
		var all []*wire.DeferredConfirmation
		for range 2000 {
			headers := wire.Table{}
			if r.IntN(2) == 0 {
				headers["x-delay"] = int32(1 + r.IntN(1000))
			}
			all = append(all, ch.publish("events", headers, "body"))
		}
		synctest.Wait()
		if len(w.broker.published)%2 == 1 {
			all = append(all, ch.publish("events", nil, "even")) // the broker confirms by twos
		}
		for i, c := range all {
			if !c.Wait() {
				t.Fatalf("%d is refused", i)
			}
		}
		assert.Equal(t, len(w.api.made())+len(w.broker.published), len(all))
	})
}

// TestRefusals checks that a message that becomes no task is never lost silently.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		headers wire.Table
		body    int
		status  int
		prepare func(w *world, ch *producer)
		code    int // of the channel's close; 0: the message is refused alone, if the client confirms
		text    string
	}{
		"a wrong delay":    {headers: wire.Table{"x-delay": "5s"}, code: 406, text: "x-delay is no number of milliseconds"},
		"a long delay":     {headers: wire.Table{"x-delay": int64(4e12)}, code: 406, text: "the limit is 3153600000000"},
		"a wrong id":       {headers: wire.Table{"x-delay": int32(1), "x-belfry-id": int32(5)}, code: 406, text: "x-belfry-id is no text"},
		"a large body":     {body: maxBody + 1, code: 311, text: "262145 bytes: the limit is 262144"},
		"a faulty field":   {status: 400, code: 406, text: "PRECONDITION_FAILED - 400 no 400"},
		"a large payload":  {status: 413, code: 311, text: "CONTENT_TOO_LARGE - 413"},
		"a weak key":       {status: 403, code: 403, text: "ACCESS_REFUSED - 403"},
		"no shard":         {status: 503, text: "RESOURCE_ERROR"},
		"a full namespace": {status: 429, text: "RESOURCE_ERROR"},
		"no right": {code: 403, text: "write access to exchange 'events'", prepare: func(w *world, _ *producer) {
			w.broker.forbidden["events"] = true
		}},
		"a transaction": {code: 406, text: "transaction", prepare: func(w *world, ch *producer) {
			assert.NoError(w.t, ch.Tx())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, confirm := range []bool{true, false} {
				within(t, func(w *world) {
					conn := w.dial()
					other, ch := w.channel(conn, true), w.channel(conn, confirm)
					if c.prepare != nil {
						c.prepare(w, ch)
					}
					headers := c.headers
					if headers == nil {
						headers = wire.Table{"x-delay": int32(1), "x-belfry-id": "x"}
					}
					if c.status != 0 {
						w.api.statuses["x"] = c.status
					}
					d := ch.publish("events", headers, strings.Repeat("x", c.body))
					switch {
					case c.code != 0:
						ch.requireClosed(c.code, c.text)
					case confirm:
						assert.Equal(t, d.Wait(), false)
					default:
						ch.requireClosed(506, c.text)
					}
					assert.Equal(t, len(w.api.made()), 0)
					if name == "no right" {
						return
					}
					again := w.channel(conn, true)
					for _, open := range []*producer{other, again} {
						assert.Equal(t, open.publish("events", wire.Table{"x-delay": int32(1)}, "x").Wait(), true)
					}
					assert.Equal(t, len(w.api.made()), 2)
				})
			}
		})
	}
}

// TestDeclare checks that an exchange of the plugin is declared with the type in its arguments, and that one that the
// plugin has still passes.
func TestDeclare(t *testing.T) {
	within(t, func(w *world) {
		w.broker.declared["old"], w.broker.declared["other"] = delayedType, "fanout"
		conn := w.dial()
		ch := w.channel(conn, false)
		args := wire.Table{"x-delayed-type": "topic"}
		for _, name := range []string{"new", "new", "old"} {
			assert.NoError(t, ch.ExchangeDeclare(name, delayedType, true, false, false, false, args), name)
		}
		assert.NoError(t, ch.ExchangeDeclare("quiet", delayedType, true, false, false, true, args))
		assert.NoError(t, ch.ExchangeDeclare("plain", "direct", true, false, false, false, nil))
		assert.Equal(t, w.broker.declared["new"]+w.broker.declared["old"]+w.broker.declared["quiet"],
			"topic"+delayedType+"topic")
		assert.Error(t, ch.ExchangeDeclare("other", delayedType, true, false, false, false, args))
		ch.requireClosed(406, "received 'topic' but current is 'fanout'")
		ch = w.channel(conn, false)
		assert.Error(t, ch.ExchangeDeclare("x", delayedType, true, false, false, false, nil))
		ch.requireClosed(406, "'x-delayed-type' must be an existing exchange type")
	})
}

// TestLeavingClients checks that what a client has published is a task when its close is answered, and also when it
// only drops its connection.
func TestLeavingClients(t *testing.T) {
	for name, leave := range map[string]func(conn *wire.Connection, ch *producer) error{
		"channel":    func(_ *wire.Connection, ch *producer) error { return ch.Channel.Close() },
		"connection": func(conn *wire.Connection, _ *producer) error { return conn.Close() },
	} {
		within(t, func(w *world) {
			conn := w.dial()
			ch := w.channel(conn, false)
			w.api.hold = make(chan struct{})
			for range 100 {
				ch.publish("events", wire.Table{"x-delay": int32(1)}, "x")
			}
			left := make(chan error, 1)
			go func() { left <- leave(conn, ch) }()
			synctest.Wait()
			assert.Equal(t, len(left), 0, name)
			close(w.api.hold)
			assert.NoError(t, <-left, name)
			assert.Equal(t, len(w.api.made()), 100, name)
		})
	}
	within(t, func(w *world) {
		conn := w.connect()
		c, err := wire.Open(conn, wire.Config{SASL: []wire.Authentication{&wire.PlainAuth{}}, Vhost: "/", Locale: "en_US"})
		assert.NoError(t, err)
		ch := w.channel(c, false)
		ch.publish("events", wire.Table{"x-delay": int32(1)}, "x")
		conn.Close()
		w.server.Close()
		assert.Equal(t, len(w.api.made()), 1)
	})
}

// TestSlowCommit checks that no side misses a heartbeat while messages are committed.
func TestSlowCommit(t *testing.T) {
	within(t, func(w *world) {
		ch := w.channel(w.dial(), true)
		w.api.hold = make(chan struct{})
		var all []*wire.DeferredConfirmation
		for range 100 {
			all = append(all, ch.publish("events", wire.Table{"x-delay": int32(1)}, "x"))
		}
		time.Sleep(25 * time.Second)
		close(w.api.hold)
		for _, one := range all {
			assert.Equal(t, one.Wait(), true)
		}
		time.Sleep(time.Hour)
		assert.Equal(t, ch.publish("events", wire.Table{"x-delay": int32(1)}, "x").Wait(), true)
	})
}

// TestFlow checks that a client whose messages are not committed is not read, beyond a bounded number of messages.
func TestFlow(t *testing.T) {
	within(t, func(w *world) {
		w.broker.heartbeat = 0 // the client would hold its lock in a write
		ch := w.channel(w.dial(), false)
		w.api.hold = make(chan struct{})
		published := 0
		go func() {
			for range 3000 {
				ch.publish("events", wire.Table{"x-delay": int32(1)}, strings.Repeat("x", 1000))
				published++
			}
		}()
		synctest.Wait()
		if published < heldMessages || published > 2*heldMessages+1 {
			t.Errorf("%d messages are taken beside a commit that hangs", published)
		}
		close(w.api.hold)
		synctest.Wait()
		assert.Equal(t, published, 3000)
		assert.NoError(t, ch.Channel.Close())
		assert.Equal(t, len(w.api.made()), 3000)
	})
}

// TestSilence checks that a client and a broker that fall silent end their connection.
func TestSilence(t *testing.T) {
	within(t, func(w *world) {
		conn := w.connect()
		c, err := wire.Open(conn, wire.Config{SASL: []wire.Authentication{&wire.PlainAuth{}}, Vhost: "/", Locale: "en_US"})
		assert.NoError(t, err)
		closed := c.NotifyClose(make(chan *wire.Error, 1))
		w.broker.mu.Lock()
		w.broker.mute = true
		w.broker.mu.Unlock()
		if err := <-closed; err == nil {
			t.Error("the connection was closed without an error")
		}
		synctest.Wait()
		assert.Equal(t, w.broker.open, 0)
	})
	within(t, func(w *world) {
		w.connect() // and no header follows
		time.Sleep(openTime + time.Second)
		synctest.Wait()
		assert.Equal(t, w.broker.open, 0)
	})
}

// TestNodeStops checks that clients hear of the end of the node.
func TestNodeStops(t *testing.T) {
	within(t, func(w *world) {
		c := w.dial()
		closed := c.NotifyClose(make(chan *wire.Error, 1))
		w.server.Close()
		if err := <-closed; err == nil || err.Code != wire.ConnectionForced {
			t.Error(err)
		}
	})
}

// TestOtherProtocol checks that a client of another protocol is told the version.
func TestOtherProtocol(t *testing.T) {
	within(t, func(w *world) {
		conn := w.connect()
		go io.WriteString(conn, "AMQP\x00\x01\x00\x00") //nolint:errcheck // the answer shows it
		said, err := io.ReadAll(conn)
		assert.NoError(t, err)
		assert.Equal(t, string(said), amqpwire.Protocol)
	})
}

func TestLimits(t *testing.T) {
	assert.Equal(t, maxBody, task.MaxPayloadBytes)
	assert.Equal(t, maxDelay, task.MaxDelay)
}
