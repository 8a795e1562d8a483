package rabbitmq

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
)

// startRabbit runs a rabbitmq-server with an epmd of its own, and returns its address and a channel.
func startRabbit(t *testing.T) (addr string, ch *amqp.Channel) {
	importstest.Need(t, "rabbitmq")
	folder := t.TempDir()
	var ports [3]string // of AMQP, of epmd, and of the node
	for i := range ports {
		_, port, err := net.SplitHostPort(importstest.FreeAddr(t))
		assert.NoError(t, err)
		ports[i] = port
	}
	addr = "127.0.0.1:" + ports[0]
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	listening := func(port string) func() error {
		return func() error {
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				err = conn.Close()
			}
			return err
		}
	}
	epmd := []string{"epmd", "-address", "127.0.0.1", "-port", ports[1]}
	importstest.Serve(t, child.Config{Command: epmd}, listening(ports[1]))
	conf := write("rabbitmq.conf", fmt.Sprintf("listeners.tcp.1 = %s\ndefault_user = belfry\ndefault_pass = secret\n"+
		"log.console = true\nlog.file = false\n", addr))
	importstest.Serve(t, child.Config{
		Command: []string{"/usr/lib/rabbitmq/bin/rabbitmq-server"}, Dir: folder,
		Env: []string{
			"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + folder, "RUNNING_UNDER_SYSTEMD=true",
			"RABBITMQ_NODENAME=belfry-import@localhost", "RABBITMQ_DIST_PORT=" + ports[2],
			"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + ports[1],
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
			"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + conf,
			"RABBITMQ_MNESIA_BASE=" + folder + "/mnesia", "RABBITMQ_LOG_BASE=" + folder + "/log",
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + write("plugins", "[].\n"), "RABBITMQ_PID_FILE=" + folder + "/pid",
			"RABBITMQ_GENERATED_CONFIG_DIR=" + folder + "/generated", "RABBITMQ_SCHEMA_DIR=" + folder + "/schema",
		},
	}, func() error {
		conn, err := amqp.Dial("amqp://belfry:secret@" + addr + "/")
		if err != nil {
			return err
		}
		ch, err = conn.Channel()
		t.Cleanup(func() { _ = conn.Close() }) // the server may have ended
		return err
	})
	assert.NoError(t, ch.ExchangeDeclare("work", "topic", true, false, false, false, nil))
	declare(t, ch, "jobs", nil)
	assert.NoError(t, ch.QueueBind("jobs", "job.#", "work", false, nil))
	assert.NoError(t, ch.Confirm(false))
	return addr, ch
}

func declare(t *testing.T, ch *amqp.Channel, name string, args amqp.Table) {
	t.Helper()
	_, err := ch.QueueDeclare(name, true, false, false, false, args)
	assert.NoError(t, err)
}

func count(t *testing.T, ch *amqp.Channel, name string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	assert.NoError(t, err)
	return q.Messages
}

// fill publishes n messages through an exchange, and waits for their confirms.
func fill(t *testing.T, ch *amqp.Channel, exchange, key string, n int, message func(i int) amqp.Publishing) {
	t.Helper()
	var last *amqp.DeferredConfirmation
	for i := range n {
		var err error
		last, err = ch.PublishWithDeferredConfirm(exchange, key, true, false, message(i))
		assert.NoError(t, err)
	}
	if !last.Wait() {
		t.Fatal("the server took no message")
	}
}

// Messages leave a queue with a time to live, and come where they would have come: each once, and not before its time.
func TestRabbitMQServer(t *testing.T) {
	addr, ch := startRabbit(t)
	b := importstest.Start(t, 1, importstest.Brokers(t, "amqp://"+addr+": {user: belfry, password: secret}\n")...)
	const ttl, messages = 15 * time.Second, 200
	wait := amqp.Table{"x-message-ttl": ttl.Milliseconds(), "x-dead-letter-exchange": "work"}
	declare(t, ch, "wait", wait)
	assert.NoError(t, ch.ExchangeDeclare("delay", "fanout", true, false, false, false, nil))
	assert.NoError(t, ch.QueueBind("wait", "", "delay", false, nil))
	fill(t, ch, "delay", "job.mail", messages, func(i int) amqp.Publishing {
		m := amqp.Publishing{
			MessageId: fmt.Sprint("m-", i), Timestamp: time.Now(), ContentType: "application/json",
			Body: fmt.Appendf(nil, `{"n": %d, "at": %d}`, i, time.Now().UnixMilli()), Headers: amqp.Table{"tenant": "acme"},
		}
		switch i % 4 {
		case 0:
			m.MessageId = ""
		case 1:
			m.Timestamp = time.Time{}
		}
		return m
	})
	fill(t, ch, "", "wait", 1, func(int) amqp.Publishing { return amqp.Publishing{CorrelationId: "c"} })

	url := "amqp://belfry:secret@" + addr + "/"
	args := []string{"rabbitmq", url, "wait", "--ttl", ttl.String(), "--exchange", "work"}
	totals, code := b.Import(append(args, "--dry-run")...)
	assert.Equal(t, totals, fmt.Sprintf(`{"read":%d,"scheduled":%d,"existing":0,"conflicts":0,"left":0,"refused":1}`, messages+1, messages))
	assert.Equal(t, code, 1, "exit status")
	_, code = b.Import(args...)
	assert.Equal(t, code, 2, "exit status of a copy")
	totals, code = b.Import(append(args, "--move")...)
	assert.Equal(t, totals, importstest.Sums(messages+1, messages, 0, 0, 0, 1, messages))
	assert.Equal(t, code, 1, "exit status")
	importstest.Await(t, func() error {
		if n := count(t, ch, "wait") + count(t, ch, "jobs"); n != 1 { // the refused message may be in either queue
			return fmt.Errorf("%d messages are in the RabbitMQ", n)
		}
		return nil
	})

	seen := map[int]bool{}
	deliveries, err := ch.ConsumeWithContext(t.Context(), "jobs", "", true, false, false, false, nil)
	assert.NoError(t, err)
	for len(seen) < messages {
		m := <-deliveries
		if m.CorrelationId != "" {
			continue // of the RabbitMQ itself
		}
		var n int
		var at int64
		_, err := fmt.Sscanf(string(m.Body), `{"n": %d, "at": %d}`, &n, &at)
		assert.NoError(t, err, "%s", m.Body)
		if early := time.Until(time.UnixMilli(at).Add(ttl)); early > 0 || seen[n] || m.Exchange != "work" ||
			m.RoutingKey != "job.mail" || m.Headers["tenant"] != "acme" || m.ContentType != "application/json" {
			t.Errorf("%v early, seen: %v, %+v", early, seen[n], m)
		}
		seen[n] = true
	}
}

// An import that is killed leaves no message behind: the next one finds the tasks of those that come back.
func TestRabbitMQServerKilled(t *testing.T) {
	addr, ch := startRabbit(t)
	b := importstest.Start(t, 1)
	const messages = 20_000
	declare(t, ch, "wait", amqp.Table{"x-message-ttl": int64(3600_000), "x-dead-letter-exchange": ""})
	fill(t, ch, "", "wait", messages, func(i int) amqp.Publishing {
		return amqp.Publishing{MessageId: fmt.Sprint("m-", i), Timestamp: time.Now(), Body: fmt.Append(nil, "text ", i)}
	})
	args := []string{"rabbitmq", "amqp://belfry:secret@" + addr + "/", "wait", "--ttl", "1h", "--exchange", "",
		"--routing-key", "jobs", "--queue", "old", "--prefix", "p-", "--move"}
	first := b.Command(args...)
	assert.NoError(t, first.Start())
	stored := func() int {
		q, err := b.Queue(t.Context(), "old")
		if err != nil {
			return 0 // no task has come yet
		}
		return int(q.Counts.Unfinished())
	}
	importstest.Await(t, func() error {
		if n := stored(); n < 5000 {
			return fmt.Errorf("%d tasks are stored", n)
		}
		return nil
	})
	assert.NoError(t, first.Process.Kill())
	assert.Error(t, first.Wait())
	importstest.Await(t, func() error {
		if n := count(t, ch, "wait") + stored(); n < messages {
			return fmt.Errorf("%d messages are still with the killed import", messages-n)
		}
		return nil
	})
	t.Logf("killed with %d tasks stored, and %d messages waiting", stored(), count(t, ch, "wait"))
	totals, code := b.Import(args...)
	assert.Equal(t, code, 0, "exit status")
	if !strings.Contains(totals, `"conflicts":0,"left":0,"refused":0,`) {
		t.Error(totals)
	}
	assert.Equal(t, stored(), messages)
	assert.Equal(t, count(t, ch, "wait"), 0)
	task, err := b.Get(t.Context(), "p-rabbitmq:wait:m-7")
	assert.NoError(t, err)
	assert.Equal(t, task.Target.URL, "amqp://"+addr+"/?queue=jobs")
}
