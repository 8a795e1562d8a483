//go:build linux

package amqpapi

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	wire "github.com/rabbitmq/amqp091-go"

	belfry "github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

// wantPart skips a test unless BELFRY_TEST_AMQP, a list with commas, names its server or language. `make test-amqp` sets
// it.
func wantPart(t *testing.T, name string) {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv("BELFRY_TEST_AMQP"), ","), name) {
		t.Skipf("BELFRY_TEST_AMQP does not name %s: make test-amqp", name)
	}
}

// real is a RabbitMQ with nodes before it.
type real struct {
	t       *testing.T
	rabbit  string   // address
	env     []string // of the broker
	cluster *local.Cluster
	amqps   []string // addresses of the nodes
	amqp    string   // the first one
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// run starts a process that is killed at the end of the test.
func run(t *testing.T, log string, env []string, command ...string) *child.Child {
	t.Helper()
	c, err := child.Start(child.Config{Command: command, Env: env, Log: log, Dir: filepath.Dir(log)})
	assert.NoError(t, err)
	t.Cleanup(func() {
		kill(t, c)
		if t.Failed() {
			t.Logf("%s said:\n%s", command[0], child.LogTail(log))
		}
	})
	return c
}

func kill(t *testing.T, c *child.Child) {
	if err := c.SignalGroup(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	<-c.Done()
}

// await waits for a condition, for minutes beside a busy machine.
func (r *real) await(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(3 * time.Minute); !holds(); <-tick.C {
		if time.Now().After(until) {
			r.t.Fatalf("%s: not in time", what)
		}
	}
}

// startReal starts a rabbitmq-server with all its files in one folder and an epmd of its own, and nodes before it.
func startReal(t *testing.T, nodes int) *real {
	wantPart(t, "rabbitmq")
	addrs, err := local.FreeAddrs(3 + nodes)
	assert.NoError(t, err)
	dir := t.TempDir()
	r := &real{t: t, rabbit: addrs[0], amqps: addrs[3:], amqp: addrs[3]}
	names, dist := addrs[1], addrs[2]
	for name, text := range map[string]string{
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = %s\ndefault_user = app\ndefault_pass = secret\nlog.console = true\n"+
			"log.file = false\n", r.rabbit),
		"plugins":      "[].\n",
		"brokers.yaml": fmt.Sprintf("amqp://%s: {user: app, password: secret}\n", r.rabbit),
	} {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	run(t, in("epmd.log"), nil, "epmd", "-d", "-address", "127.0.0.1", "-port", portOf(names))
	r.await("epmd", func() bool { return answers(names) })
	r.env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + dir, "RUNNING_UNDER_SYSTEMD=true",
		"RABBITMQ_NODENAME=belfry-amqp@localhost", "RABBITMQ_DIST_PORT=" + portOf(dist),
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + portOf(names),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"), "RABBITMQ_LOG_BASE=" + in("log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"), "RABBITMQ_PID_FILE=" + in("pid"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + in("generated"), "RABBITMQ_SCHEMA_DIR=" + in("schema"),
	}
	run(t, in("rabbit.log"), r.env, "/usr/lib/rabbitmq/bin/rabbitmq-server")
	r.await("rabbitmq-server", func() bool { return answers(r.rabbit) })
	places := make([]local.Place, nodes)
	for i, addr := range r.amqps {
		places[i].Args = []string{"--amqp", addr}
	}
	r.cluster, err = local.Start(t.Context(), local.Config{
		Nodes: nodes, DataDir: in("nodes"), Binary: os.Getenv("BELFRY_BINARY"), Places: places,
		ExtraArgs: []string{"--brokers", in("brokers.yaml"), "--amqp-broker", "amqp://" + r.rabbit},
	})
	assert.NoError(t, err)
	t.Cleanup(r.cluster.Stop)
	return r
}

func answers(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func (r *real) dial(addr, user, password string) *wire.Connection {
	r.t.Helper()
	c, err := wire.Dial("amqp://" + user + ":" + password + "@" + addr + "/")
	assert.NoError(r.t, err)
	return c
}

func (r *real) channel(addr string, confirm bool) *producer {
	r.t.Helper()
	return (&world{t: r.t}).channel(r.dial(addr, "app", "secret"), confirm)
}

func (r *real) queue(ch *producer, name, exchange string) <-chan wire.Delivery {
	r.t.Helper()
	_, err := ch.QueueDeclare(name, true, false, false, false, nil)
	assert.NoError(r.t, err)
	if exchange != "" {
		assert.NoError(r.t, ch.QueueBind(name, "k", exchange, false, nil))
	}
	out, err := ch.Consume(name, "", true, false, false, false, nil)
	assert.NoError(r.t, err)
	return out
}

// TestClientsServer runs a program of each language, which is written for RabbitMQ's plugin.
func TestClientsServer(t *testing.T) {
	r := startReal(t, 1)
	if version, err := exec.Command("rabbitmqctl", "version").Output(); err == nil {
		t.Logf("rabbitmq-server %s", strings.TrimSpace(string(version)))
	}
	in := os.Getenv("BELFRY_REAL_CLIENTS")
	for name, command := range map[string][]string{
		"python": {in + "/python/bin/python", "realclients/client.py", r.amqp},
		"node":   {"node", "realclients/client.mjs", r.amqp},
		"java":   {"java", "-cp", in + "/java/*", "realclients/java/Client.java", r.amqp},
	} {
		t.Run(name, func(t *testing.T) {
			wantPart(t, name)
			out, err := exec.Command(command[0], command[1:]...).CombinedOutput() //nolint:gosec // the test's own
			if err != nil || !strings.Contains(string(out), "received 30") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestPassesServer checks what reaches a real broker: delayed messages as they were published, and all else.
func TestPassesServer(t *testing.T) {
	r := startReal(t, 1)
	ch, direct := r.channel(r.amqp, true), r.channel(r.rabbit, false)
	for range 2 {
		assert.NoError(t, ch.ExchangeDeclare("events", delayedType, true, false, false, false,
			wire.Table{"x-delayed-type": "direct"}))
	}
	got := r.queue(ch, "work", "events")

	t.Run("as published", func(t *testing.T) {
		at := time.Now().Truncate(time.Second).UTC()
		sent := wire.Publishing{
			Headers:     wire.Table{"x-delay": int32(300), "n": int64(5), "deep": wire.Table{"list": []any{"a", int32(1), true}}},
			ContentType: "application/x", ContentEncoding: "gzip", DeliveryMode: 1, Priority: 4, CorrelationId: "c", ReplyTo: "r",
			Expiration: "60000", MessageId: "m", Timestamp: at, Type: "t", UserId: "app", AppId: "a", Body: []byte{0, 1, 255},
		}
		begun := time.Now()
		d, err := ch.PublishWithDeferredConfirm("events", "k", false, false, sent)
		assert.NoError(t, err)
		assert.Equal(t, d.Wait(), true)
		m := <-got
		if took := time.Since(begun); took < 300*time.Millisecond {
			t.Errorf("early: after %v", took)
		}
		list := m.Headers["deep"].(wire.Table)["list"].([]any)
		if m.Headers["x-delay"] != int32(-300) || m.Headers["n"] != int64(5) || len(list) != 3 || list[2] != true ||
			m.Headers["webhook-id"] == nil {
			t.Errorf("headers %v", m.Headers)
		}
		if m.ContentType != sent.ContentType || m.ContentEncoding != sent.ContentEncoding || m.DeliveryMode != 1 ||
			m.Priority != 4 || m.CorrelationId != "c" || m.ReplyTo != "r" || m.Expiration != "60000" || m.MessageId != "m" ||
			!m.Timestamp.Equal(at) || m.Type != "t" || m.UserId != "" || m.AppId != "a" || string(m.Body) != "\x00\x01\xff" ||
			m.Exchange != "events" || m.RoutingKey != "k" {
			t.Errorf("%+v", m)
		}
	})
	t.Run("large, returned and in a transaction", func(t *testing.T) {
		large := strings.Repeat("x", 1<<20)
		assert.Equal(t, ch.publish("events", nil, large).Wait(), true)
		assert.Equal(t, string((<-got).Body), large)
		back := ch.NotifyReturn(make(chan wire.Return, 1))
		assert.NoError(t, ch.Publish("events", "nobody", true, false, wire.Publishing{Body: []byte("back")}))
		assert.Equal(t, string((<-back).Body), "back")
		tx := r.channel(r.amqp, false)
		assert.NoError(t, tx.Tx())
		assert.NoError(t, tx.Publish("events", "k", false, false, wire.Publishing{Body: []byte("kept")}))
		assert.NoError(t, tx.TxCommit())
		assert.Equal(t, string((<-got).Body), "kept")
		assert.NoError(t, tx.Publish("events", "k", false, false,
			wire.Publishing{Headers: wire.Table{"x-delay": int32(1)}}))
		tx.requireClosed(406, "transaction")
	})
	t.Run("headers exchange and the default one", func(t *testing.T) {
		args := wire.Table{"x-delayed-type": "headers"}
		assert.NoError(t, ch.ExchangeDeclare("by-headers", delayedType, true, false, false, false, args))
		_, err := ch.QueueDeclare("matching", true, false, false, false, nil)
		assert.NoError(t, err)
		assert.NoError(t, ch.QueueBind("matching", "", "by-headers", false, wire.Table{"x-match": "all", "n": int32(5)}))
		matching, err := ch.Consume("matching", "", true, false, false, false, nil)
		assert.NoError(t, err)
		assert.Equal(t, ch.publish("by-headers", wire.Table{"x-delay": int32(50), "n": int32(5)}, "match").Wait(), true)
		assert.Equal(t, string((<-matching).Body), "match")
		named := r.queue(ch, "k", "")
		assert.Equal(t, ch.publish("", wire.Table{"x-delay": int32(50)}, "default").Wait(), true)
		assert.Equal(t, string((<-named).Body), "default")
	})
	calls, err := belfry.New(belfry.Config{Addrs: r.cluster.URLs()})
	assert.NoError(t, err)
	defer calls.Close()
	t.Run("cancelled", func(t *testing.T) {
		headers := wire.Table{"x-delay": int32(3_600_000), "x-belfry-id": "order-1"}
		assert.Equal(t, ch.publish("events", headers, "never").Wait(), true)
		outcome, err := calls.Cancel(t.Context(), "order-1")
		assert.NoError(t, err)
		assert.Equal(t, outcome, belfry.OutcomeCancelled)
	})
	t.Run("to a queue of Belfry", func(t *testing.T) {
		assert.NoError(t, ch.ExchangeDeclare(queueExchange, "direct", true, false, false, false, nil))
		assert.Equal(t, ch.publish(queueExchange, wire.Table{"x-belfry-id": "here"}, "here").Wait(), true)
		task, err := calls.Get(t.Context(), "here")
		assert.NoError(t, err)
		assert.Equal(t, task.Queue, "k")
		assert.Equal(t, string(task.PayloadBytes), "here")
	})
	t.Run("without the right", func(t *testing.T) {
		for _, args := range [][]string{
			{"add_user", "weak", "weak"}, {"set_permissions", "weak", "", "", ".*"},
		} {
			r.rabbitctl(args...)
		}
		weak := (&world{t: t}).channel(r.dial(r.amqp, "weak", "weak"), true)
		weak.publish("events", wire.Table{"x-delay": int32(1)}, "stolen")
		weak.requireClosed(403, "events")
		none := r.channel(r.amqp, false)
		none.publish("none", wire.Table{"x-delay": int32(1)}, "lost")
		none.requireClosed(404, "no exchange 'none'")
		other := r.channel(r.amqp, false)
		assert.NoError(t, other.Publish("events", "k", false, false, wire.Publishing{
			UserId: "weak", Headers: wire.Table{"x-delay": int32(1)}}))
		other.requireClosed(406, "user_id")
		_, err := wire.Dial("amqp://app:wrong@" + r.amqp + "/")
		assert.Error(t, err)
	})
	select {
	case m := <-got:
		t.Errorf("one too many: %+v", m)
	default:
	}
	left, err := direct.QueueDeclarePassive("work", true, false, false, false, nil)
	assert.NoError(t, err)
	assert.Equal(t, left.Messages, 0)
}

// rabbitctl calls rabbitmqctl for the server of the test.
func (r *real) rabbitctl(args ...string) {
	r.t.Helper()
	cmd := exec.Command("/usr/lib/rabbitmq/bin/rabbitmqctl", append([]string{"-n", "belfry-amqp@localhost"}, args...)...)
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	assert.NoError(r.t, err, string(out))
}

// TestKilledNodeServer kills a node again and again while a producer publishes to it: the only one, and each of three,
// which the producer calls in turn. Each confirmed message comes, never early, and more than once only under one
// webhook-id.
func TestKilledNodeServer(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) { testKilledNode(t, nodes) })
	}
}

func testKilledNode(t *testing.T, nodes int) {
	r := startReal(t, nodes)
	setUp := r.channel(r.rabbit, false)
	assert.NoError(t, setUp.ExchangeDeclare("events", "direct", true, false, false, false, nil))
	got := r.queue(setUp, "work", "events")

	var mu sync.Mutex
	due, confirmed := map[string]time.Time{}, map[string]bool{}
	webhooks := map[string]map[any]bool{}
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for m := range got {
			now, body := time.Now(), string(m.Body)
			mu.Lock()
			if now.Before(due[body]) {
				t.Errorf("%s came %v early", body, due[body].Sub(now))
			}
			if webhooks[body] == nil {
				webhooks[body] = map[any]bool{}
			}
			webhooks[body][m.Headers["webhook-id"]] = true
			mu.Unlock()
		}
	})
	number := 0
	publishUntilLost := func(addr string, started chan<- struct{}) {
		conn := r.dial(addr, "app", "secret")
		ch := (&world{t: t}).channel(conn, true)
		for i := 0; ; i++ {
			body := fmt.Sprint("m", number)
			number++
			mu.Lock()
			due[body] = time.Now().Add(500 * time.Millisecond)
			mu.Unlock()
			d, err := ch.PublishWithDeferredConfirm("events", "k", false, false, wire.Publishing{
				Headers: wire.Table{"x-delay": int32(500)}, Body: []byte(body)})
			if err != nil {
				return
			}
			go func() {
				if d.Wait() {
					mu.Lock()
					confirmed[body] = true
					mu.Unlock()
				}
			}()
			if i == 200 {
				close(started)
			}
			if i%20 == 0 {
				if _, err := d.WaitContext(t.Context()); err != nil || ch.IsClosed() {
					return
				}
			}
		}
	}
	victim := ""
	revive := func() {
		if victim != "" {
			assert.NoError(t, r.cluster.StartNode(t.Context(), victim))
		}
		victim = ""
	}
	for i := range 4 {
		if nodes == 1 {
			revive()
		}
		started, lost := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(lost)
			publishUntilLost(r.amqps[i%nodes], started)
		}()
		<-started
		revive()
		victim = r.cluster.Nodes()[i%nodes].Name
		assert.NoError(t, r.cluster.Kill(victim))
		<-lost
	}
	revive()
	missing := ""
	r.await("all confirmed messages", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for body := range confirmed {
			if len(webhooks[body]) == 0 {
				missing = body
				return false
			}
		}
		return true
	})
	assert.NoError(t, setUp.Channel.Close())
	consumer.Wait()
	t.Logf("%d published, %d confirmed, %d received", number, len(confirmed), len(webhooks))
	for body, ids := range webhooks {
		if len(ids) != 1 {
			t.Errorf("%s came under %d ids", body, len(ids))
		}
	}
	if len(confirmed) < 400 {
		t.Errorf("%d messages are confirmed; the last that did not come was %s", len(confirmed), missing)
	}
}
