//go:build linux

package broker

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// rabbitServer runs a rabbitmq-server with all its files in one folder, and an epmd of its own, so that it leaves
// nothing behind and does not touch another epmd on the machine.
func rabbitServer(t testing.TB) (addr, overTLS, folder string, p *process) {
	wantServer(t, "rabbitmq")
	ports := freePorts(t, 4)
	folder = t.TempDir()
	certificates(t, folder)
	names := startProcess(t, "epmd running", func() *exec.Cmd {
		return exec.Command("epmd", "-d", "-address", "127.0.0.1", "-port", fmt.Sprint(ports[2]))
	})
	t.Cleanup(names.kill)
	conf := filepath.Join(folder, "rabbitmq.conf")
	writeFile(t, conf, fmt.Sprintf(`
listeners.tcp.1 = 127.0.0.1:%d
listeners.ssl.1 = 127.0.0.1:%d
ssl_options.cacertfile = %[3]s/ca.pem
ssl_options.certfile = %[3]s/cert.pem
ssl_options.keyfile = %[3]s/key.pem
default_user = belfry
default_pass = pass word
log.console = true
log.file = false
`, ports[0], ports[1], folder))
	writeFile(t, filepath.Join(folder, "plugins"), "[].\n")
	p = startProcess(t, "Server startup complete", func() *exec.Cmd {
		cmd := exec.Command("/usr/lib/rabbitmq/bin/rabbitmq-server")
		cmd.Dir = folder
		cmd.Env = []string{
			"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + folder, "RUNNING_UNDER_SYSTEMD=true",
			"RABBITMQ_NODENAME=belfry-test@localhost", "RABBITMQ_DIST_PORT=" + fmt.Sprint(ports[3]),
			"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + fmt.Sprint(ports[2]),
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
			"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + conf,
			"RABBITMQ_MNESIA_BASE=" + folder + "/mnesia", "RABBITMQ_LOG_BASE=" + folder + "/log",
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + folder + "/plugins", "RABBITMQ_PID_FILE=" + folder + "/pid",
			"RABBITMQ_GENERATED_CONFIG_DIR=" + folder + "/generated", "RABBITMQ_SCHEMA_DIR=" + folder + "/schema",
		}
		return cmd
	})
	return local(ports[0]), local(ports[1]), folder, p
}

func rabbitAdmin(t testing.TB, addr string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.DialConfig("amqp://"+addr+"/", amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "belfry", Password: "pass word"}},
	})
	assert.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	assert.NoError(t, err)
	return ch
}

func declare(t testing.TB, ch *amqp.Channel, name string, args amqp.Table) amqp.Queue {
	t.Helper()
	q, err := ch.QueueDeclare(name, true, false, false, false, args)
	assert.NoError(t, err)
	return q
}

func readRabbit(t *testing.T, addr, queue string) []received {
	t.Helper()
	ch := rabbitAdmin(t, addr)
	var out []received
	for {
		m, ok, err := ch.Get(queue, true)
		assert.NoError(t, err)
		if !ok {
			return out
		}
		r := received{map[string]string{}, m.Body}
		for name, value := range m.Headers {
			r.headers[name] = value.(string)
		}
		if m.MessageId != r.headers["webhook-id"] || m.ContentType != r.headers["content-type"] ||
			m.Timestamp.IsZero() || m.DeliveryMode != amqp.Persistent {
			t.Errorf("properties %+v", m)
		}
		out = append(out, r)
	}
}

func TestRabbitMQServer(t *testing.T) {
	addr, overTLS, folder, p := rabbitServer(t)
	publisher := newPublisher(t, withFile(t, fmt.Sprintf(
		"amqp://%s: {user: belfry, password: pass word}\namqps://%s: {user: belfry, password: pass word, ca: %s/ca.pem}\n",
		addr, overTLS, folder)))
	ch := rabbitAdmin(t, addr)
	declare(t, ch, "orders", nil)

	t.Run("failures", func(t *testing.T) {
		declare(t, ch, "full", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
		for _, c := range []struct{ path, says string }{
			{"/?queue=none", "the broker cannot route the message: NO_ROUTE"},
			{"/?exchange=amq.topic&routing_key=a.b", "the broker cannot route the message: NO_ROUTE"},
			{"/?exchange=none", "the broker closed the channel: NOT_FOUND - no exchange 'none' in vhost '/'"},
			{"/?exchange=none", "the broker closed the channel: NOT_FOUND - no exchange 'none' in vhost '/'"},
			{"/none?queue=orders", "the broker refused the connection: "},
			{"/?queue=full", ""},
			{"/?queue=full", "the broker did not take the message (nack)"},
			{"/?queue=orders", ""},
		} {
			out := publisher.Deliver(t.Context(), attemptOf("amqp://"+addr+c.path))
			if out.Permanent || out.Delivered != (c.says == "") || !strings.HasPrefix(out.Error, c.says) {
				t.Errorf("%s: %+v", c.path, out)
			}
		}
		out := newPublisher(t, permit(t, "amqp://"+addr)).Deliver(t.Context(), attemptOf("amqp://"+addr+"/?queue=orders"))
		if out.Delivered || !strings.HasPrefix(out.Error, "the broker refused the connection: ") {
			t.Errorf("a stranger: %+v", out)
		}
	})
	t.Run("a wrong exchange harms no other", func(t *testing.T) {
		batch := make([]task.Attempt, 400)
		for i := range batch {
			path := []string{"/?queue=orders", "/?exchange=none"}[i%2]
			batch[i] = attemptOf("amqp://"+addr+path, func(t *fsmpb.Task) { t.Fence = uint64(i) })
		}
		for i, out := range publisher.DeliverBatch(t.Context(), batch) {
			if out.Delivered != (i%2 == 0) || i%2 == 1 && !strings.Contains(out.Error, "NOT_FOUND") {
				t.Errorf("%d: %+v", i, out)
			}
		}
	})
	t.Run("TLS and exchange", func(t *testing.T) {
		declare(t, ch, "bound", nil)
		assert.NoError(t, ch.QueueBind("bound", "a.*", "amq.topic", false, nil))
		a := attemptOf("amqps://"+overTLS+"/%2F?exchange=amq.topic&routing_key=a.b", func(t *fsmpb.Task) { t.WebhookId = "w-tls" })
		if out := publisher.Deliver(t.Context(), a); !out.Delivered {
			t.Errorf("%+v", out)
		}
		if got := readRabbit(t, addr, "bound"); len(got) != 1 || got[0].headers["webhook-id"] != "w-tls" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("stream", func(t *testing.T) {
		readRabbit(t, addr, "orders")
		stream(t, publisher, streamed{
			url: "amqp://" + addr + "/?queue=orders", restart: p.restart, ce: "ce-",
			read: func() []received { return readRabbit(t, addr, "orders") },
		})
	})
}
