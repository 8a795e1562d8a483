package broker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// paths holds the rest of the URL after the address, for each kind of broker.
var paths = map[string]string{
	"nats": "/subject", "amqp": "/?queue=q", "redis": "/?stream=s", "kafka": "/topic", "rocketmq": "/topic",
}

// eachKind runs a test for every kind of broker.
func eachKind(t *testing.T, test func(t *testing.T, url func(address string) string)) {
	for scheme, path := range paths {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			test(t, func(address string) string { return scheme + "://" + address + path })
		})
	}
}

// eachKindInMemory runs a test for every kind of broker on a network in memory, in a bubble of testing/synctest. NATS is
// left out: its client shares timers between all connections, and a timer must not leave its bubble.
func eachKindInMemory(t *testing.T, test func(t *testing.T, network *memnet.Network, url func(address string) string)) {
	for scheme, path := range paths {
		if scheme == "nats" {
			continue
		}
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				test(t, memnet.New(), func(address string) string { return scheme + "://" + address + path })
			})
		})
	}
}

// quick gives a Publisher very short timeouts.
func quick(c *Config) { c.ConnectTimeout, c.Patience = 300*time.Millisecond, 200*time.Millisecond }

// hang reads everything and never answers.
func hang(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// TestBadBrokers lists servers that are no brokers, and the outcome of an attempt for each.
func TestBadBrokers(t *testing.T) {
	closed := func(c net.Conn) { c.Close() }
	noise := func(c net.Conn) {
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n\x00\xff\xff\xff\xff"))
		hang(c)
	}
	flood := func(c net.Conn) {
		for junk := []byte(strings.Repeat("INFO {", 1000)); ; {
			if _, err := c.Write(junk); err != nil {
				return
			}
		}
	}
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }
	for name, serve := range map[string]func(net.Conn){
		"closes": closed, "resets": reset, "hangs": hang, "speaks something else": noise, "floods": flood,
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, url func(string) string) {
				target := url(listen(t, serve))
				a := attemptOf(target)
				a.Timeout = 2 * time.Second
				checkFailure(t, newPublisher(t, quick, permit(t, target)).Deliver(t.Context(), a))
			})
		})
	}
}

func checkFailure(t *testing.T, out task.Outcome) {
	t.Helper()
	if out.Delivered || out.Permanent || out.Error == "" || len(out.Error) > task.MaxErrorBytes ||
		strings.ContainsAny(out.Error, "\n\r\x00") || strings.Contains(out.Error, "aborted") {
		t.Errorf("outcome %+v", out)
	}
}

func TestBrokerThatIsDown(t *testing.T) {
	eachKind(t, func(t *testing.T, url func(string) string) {
		target := url(local(freePorts(t, 1)[0]))
		out := newPublisher(t, permit(t, target)).Deliver(t.Context(), attemptOf(target))
		assert.Equal(t, out, task.Outcome{Error: "connection refused"})
	})
}

func TestAttemptsEndInTime(t *testing.T) {
	eachKindInMemory(t, func(t *testing.T, network *memnet.Network, url func(string) string) {
		target := url(listenIn(t, network, hang))
		a := attemptOf(target)
		a.Timeout = 5 * time.Second
		begun := time.Now()
		out := newPublisher(t, permit(t, target), in(network)).Deliver(t.Context(), a)
		if want := (task.Outcome{Error: "timed out after 5s (connecting)"}); out != want || time.Since(begun) != a.Timeout {
			t.Errorf("%+v after %v, want %+v", out, time.Since(begun), want)
		}
	})
}

func TestAttemptsAtNATSEndInTime(t *testing.T) {
	target := "nats://" + listen(t, hang) + paths["nats"]
	a := attemptOf(target)
	a.Timeout = 100 * time.Millisecond
	out := newPublisher(t, permit(t, target)).Deliver(t.Context(), a)
	assert.Equal(t, out, (task.Outcome{Error: "timed out after 100ms (connecting)"}))
}

func TestAttemptsEndWithTheirContext(t *testing.T) {
	eachKind(t, func(t *testing.T, url func(string) string) {
		ctx, cancel := context.WithCancel(t.Context())
		target := url(listen(t, func(c net.Conn) { cancel(); hang(c) }))
		out := newPublisher(t, permit(t, target)).Deliver(ctx, attemptOf(target))
		assert.Equal(t, out, task.Outcome{Error: "aborted: this node gave the attempt up"})
	})
}

// TestOneConnectForAll checks that all attempts towards a broker that does not answer wait for one connection.
func TestOneConnectForAll(t *testing.T) {
	eachKindInMemory(t, func(t *testing.T, network *memnet.Network, url func(string) string) {
		var connections atomic.Int32
		target := url(listenIn(t, network, func(c net.Conn) { connections.Add(1); hang(c) }))
		p := newPublisher(t, permit(t, target), in(network))
		batch := make([]task.Attempt, 50)
		for i := range batch {
			batch[i] = attemptOf(target)
			batch[i].Timeout = 200 * time.Millisecond
		}
		for _, out := range p.DeliverBatch(t.Context(), batch) {
			checkFailure(t, out)
		}
		assert.Equal(t, connections.Load(), 1, "connections")
	})
}

// TestIsolation checks that a broker that hangs harms no other.
func TestIsolation(t *testing.T) {
	good, hung := "redis://"+fakeRedis(t, nil)+"/?stream=s", "amqp://"+listen(t, hang)+"/?queue=q"
	p := newPublisher(t, permit(t, good, hung))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan []task.Outcome)
	go func() {
		batch := make([]task.Attempt, 500)
		for i := range batch {
			batch[i] = attemptOf(hung)
		}
		ended <- p.DeliverBatch(ctx, batch)
	}()
	for range 1000 {
		if out := p.Deliver(t.Context(), attemptOf(good)); !out.Delivered {
			t.Fatalf("%+v", out)
		}
	}
	cancel()
	<-ended
}

// TestSilence checks that a broker that falls silent after its welcome loses its connection, and that the next attempt
// opens another.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mute atomic.Bool
		var welcomed atomic.Int32
		silent := make(chan struct{})
		t.Cleanup(func() { close(silent) })
		network := memnet.New()
		addr := listenIn(t, network, serveRedis(func(command string) string {
			if command == "ping" {
				welcomed.Add(1)
				return ""
			}
			if mute.Load() {
				<-silent
			}
			return ""
		}))
		a := attemptOf("redis://" + addr + "/?stream=s")
		p := newPublisher(t, func(c *Config) { c.Patience = 100 * time.Millisecond }, permit(t, "redis://"+addr), in(network))
		if out := p.Deliver(t.Context(), a); !out.Delivered {
			t.Fatalf("%+v", out)
		}
		mute.Store(true)
		a.Timeout = 50 * time.Millisecond // shorter than the patience: the connection stays
		for _, timeout := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond} {
			a.Timeout = timeout
			want := fmt.Sprintf("timed out after %s (waiting for the broker's confirmation)", timeout)
			out := p.Deliver(t.Context(), a)
			assert.Equal(t, out.Error, want, "%+v", out)
			if n := welcomed.Load(); n != 1 {
				t.Errorf("%d connections after %v", n, timeout)
			}
		}
		mute.Store(false)
		a.Timeout = 10 * time.Second
		for {
			out := p.Deliver(t.Context(), a)
			if out.Delivered {
				break
			}
			if !strings.Contains(out.Error, "the broker answered nothing for too long") {
				t.Fatalf("%+v", out)
			}
		}
		assert.Equal(t, welcomed.Load(), 2, "connections")
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	gone := make(chan struct{})
	addr := listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			words, err := redisCommand(in)
			if err != nil {
				gone <- struct{}{}
				return
			}
			_, _ = c.Write([]byte(redisReply(words[0])))
		}
	})
	p := newPublisher(t, func(c *Config) { c.IdleTimeout = 20 * time.Millisecond }, permit(t, "redis://"+addr))
	if out := p.Deliver(t.Context(), attemptOf("redis://"+addr+"/?stream=s")); !out.Delivered {
		t.Fatalf("%+v", out)
	}
	<-gone
}

func TestClosed(t *testing.T) {
	addr := fakeRedis(t, nil)
	p := newPublisher(t, permit(t, "redis://"+addr))
	a := attemptOf("redis://" + addr + "/?stream=s")
	if out := p.Deliver(t.Context(), a); !out.Delivered {
		t.Fatalf("%+v", out)
	}
	p.Close()
	p.Close()
	if out := p.Deliver(t.Context(), a); out.Delivered || out.Error != "aborted: this node is shutting down" {
		t.Errorf("%+v", out)
	}
}

// TestUnknownBrokers checks that no broker is dialled unless the operator has named all of its hosts.
func TestUnknownBrokers(t *testing.T) {
	eachKind(t, func(t *testing.T, url func(string) string) {
		var connections atomic.Int32
		addr := listen(t, func(net.Conn) { connections.Add(1) })
		p := newPublisher(t, permit(t, url("127.0.0.1:1")))
		out := p.Deliver(t.Context(), attemptOf(url(addr)))
		if out.Permanent || !strings.Contains(out.Error, "--brokers") {
			t.Errorf("%+v", out)
		}
		if err := p.CheckURL(url(addr)); err == nil || err.Field != "target.url" || !strings.Contains(err.Detail, addr) {
			t.Errorf("checked: %v", err)
		}
		if err := p.CheckURL(url("127.0.0.1:1")); err != nil {
			t.Errorf("checked: %v", err)
		}
		assert.Equal(t, connections.Load(), 0, "connected nevertheless")
	})
	if err := newPublisher(t, permit(t, "kafka://a:1")).CheckURL("kafka://a:1,b:1/topic"); err == nil {
		t.Error("a host beside one that is known is known as well")
	}
	if err := newPublisher(t, permit(t, "nats://a:1,b:1")).CheckURL("nats://b:1/subject"); err != nil {
		t.Errorf("one of a broker's hosts: %v", err)
	}
	if err := newPublisher(t, permit(t, "nats://a:1", "nats://b:1")).CheckURL("nats://a:1,b:1/subject"); err == nil {
		t.Error("two brokers are taken for one")
	}
}

// TestRedisAnswers checks that only an entry's id confirms it, and an element by the length of its list.
func TestRedisAnswers(t *testing.T) {
	const noID, noLength = "the broker's answer has no id of an entry in it", "the broker's answer is no length of a list"
	for _, c := range []struct{ place, reply, says string }{
		{"stream=s", "$0\r\n\r\n", noID},
		{"stream=s", "$-1\r\n", noID},
		{"stream=s", ":1\r\n", noID},
		{"stream=s", "-OOM too full\r\n", "the broker refused: OOM too full"},
		{"stream=s", "-READONLY replica\r\n", "the broker refused: READONLY replica"},
		{"stream=s", "", ""},
		{"list=l", ":0\r\n", noLength},
		{"list=l&push=left", "$3\r\n1-1\r\n", noLength},
		{"list=l", "-OOM too full\r\n", "the broker refused: OOM too full"},
		{"list=l", "", ""},
		{"list=l&push=left", "", ""},
	} {
		url := "redis://" + fakeRedis(t, func(command string) string {
			if command == "ping" {
				return ""
			}
			return c.reply
		}) + "/?" + c.place
		out := newPublisher(t, permit(t, url)).Deliver(t.Context(), attemptOf(url))
		if out.Delivered != (c.says == "") || out.Permanent || !strings.HasPrefix(out.Error, c.says) {
			t.Errorf("%s, %q: %+v", c.place, c.reply, out)
		}
	}
}

func TestTargetsThatNoRetryHelps(t *testing.T) {
	p := newPublisher(t)
	for _, url := range []string{"", "nats://h/a.>", "http://127.0.0.1/", "amqp://h/", "kafka://u:p@h/t"} {
		if out := p.Deliver(t.Context(), attemptOf(url)); !out.Permanent || !strings.HasPrefix(out.Error, "target.url ") {
			t.Errorf("%q: %+v", url, out)
		}
	}
	if out := p.Deliver(t.Context(), task.Attempt{Task: &fsmpb.Task{}}); !out.Permanent {
		t.Errorf("no target: %+v", out)
	}
}

// TestSilenceAfterTheWelcome checks that the pool also gives up a client that waits for an answer by itself.
func TestSilenceAfterTheWelcome(t *testing.T) {
	for scheme, welcome := range map[string]func(net.Conn){
		"nats": natsWelcomes, "amqp": func(c net.Conn) { amqpWelcomes(c, func() { hang(c) }) },
		"rocketmq": rocketRoutes,
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			connected := make(chan struct{}, 100)
			url := scheme + "://" + listen(t, func(c net.Conn) { connected <- struct{}{}; welcome(c) }) + paths[scheme]
			p := newPublisher(t, func(c *Config) { c.Patience = 50 * time.Millisecond }, permit(t, url))
			a := attemptOf(url)
			a.Timeout = 100 * time.Millisecond
			for n := 0; n < 3; {
				checkFailure(t, p.Deliver(t.Context(), a))
				select {
				case <-connected:
					n++
				case <-t.Context().Done():
					t.Fatal("no further connection")
				default:
				}
			}
		})
	}
}

// TestNATSLimits checks that the limit in the server's welcome holds.
func TestNATSLimits(t *testing.T) {
	addr := listen(t, func(c net.Conn) { natsServes(c, 100) })
	out := newPublisher(t, permit(t, "nats://"+addr)).Deliver(t.Context(), attemptOf("nats://"+addr+"/s"))
	assert.Equal(t, out, (task.Outcome{Permanent: true, Error: "the message is larger than the broker takes (100 bytes)"}))
}

// TestAMQPBlocked checks that attempts end at once when a broker blocks publishers for lack of memory.
func TestAMQPBlocked(t *testing.T) {
	blocked := make(chan struct{})
	addr := listen(t, func(c net.Conn) { amqpWelcomes(c, func() { <-blocked }) })
	p := newPublisher(t, permit(t, "amqp://"+addr))
	a := attemptOf("amqp://" + addr + "/?queue=q")
	a.Timeout = 200 * time.Millisecond
	if out := p.Deliver(t.Context(), a); !strings.HasPrefix(out.Error, "timed out") {
		t.Errorf("%+v", out)
	}
	close(blocked)
	for out := (task.Outcome{}); out.Error != "the broker blocks publishers: low on memory"; {
		if out = p.Deliver(t.Context(), a); out.Delivered || t.Context().Err() != nil {
			t.Fatalf("%+v", out)
		}
	}
}

// TestAMQPNames checks that a message that AMQP cannot carry does not cost the connection.
func TestAMQPNames(t *testing.T) {
	url := "amqp://" + listen(t, func(c net.Conn) { amqpWelcomes(c, func() { hang(c) }) }) + paths["amqp"]
	out := newPublisher(t, permit(t, url)).Deliver(t.Context(), attemptOf(url, func(t *fsmpb.Task) {
		t.Spec.Target.Headers = []*fsmpb.Header{{Name: strings.Repeat("x", 256), Value: "1"}}
	}))
	assert.Equal(t, out, task.Outcome{Permanent: true, Error: "a header's name has 256 bytes: AMQP takes 255"})
}
