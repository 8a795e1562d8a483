//go:build linux

package broker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// natsServer runs a nats-server with JetStream, for TLS and plain connections, with one user that may publish to
// orders.> and one that may do everything.
func natsServer(t testing.TB) (addr, folder string, p *process) {
	wantServer(t, "nats")
	folder, port := t.TempDir(), freePorts(t, 1)[0]
	certificates(t, folder)
	conf := filepath.Join(folder, "nats.conf")
	writeFile(t, conf, fmt.Sprintf(`
listen: "127.0.0.1:%d"
allow_non_tls: true
tls { cert_file: "%[2]s/cert.pem", key_file: "%[2]s/key.pem", timeout: 5 }
jetstream { store_dir: "%[2]s/store" }
authorization { users: [
  { user: belfry, password: "pass word", permissions: { publish: ["orders.>", "nowhere"], subscribe: "_INBOX.>" } }
  { user: admin, password: admin }
] }`, port, folder))
	p = startProcess(t, "Server is ready", func() *exec.Cmd {
		return exec.Command(os.Getenv("BELFRY_NATS_SERVER"), "-c", conf)
	})
	return local(port), folder, p
}

func natsAdmin(t testing.TB, addr string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect("nats://"+addr, nats.UserInfo("admin", "admin"))
	assert.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	assert.NoError(t, err)
	return js
}

func natsStream(t testing.TB, js jetstream.JetStream, cfg jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := js.CreateOrUpdateStream(ctx, cfg)
	assert.NoError(t, err)
	return s
}

var ordersStream = jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.close"}}

func readNATS(t *testing.T, addr string) []received {
	t.Helper()
	s := natsStream(t, natsAdmin(t, addr), ordersStream)
	info, err := s.Info(t.Context())
	assert.NoError(t, err)
	var out []received
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		assert.NoError(t, err)
		assert.Equal(t, m.Header.Get(jetstream.MsgIDHeader), m.Header.Get("webhook-id"), "headers %v", m.Header)
		m.Header.Del(jetstream.MsgIDHeader)
		r := received{map[string]string{}, m.Data}
		for name, values := range m.Header {
			r.headers[name] = strings.Join(values, "|")
		}
		out = append(out, r)
	}
	return out
}

func TestNATSServer(t *testing.T) {
	addr, folder, p := natsServer(t)
	js := natsAdmin(t, addr)
	natsStream(t, js, ordersStream)
	publisher := newPublisher(t, withFile(t, fmt.Sprintf(
		"nats://%[1]s: {user: belfry, password: pass word}\nnatss://%[1]s: {user: belfry, password: pass word, ca: %[2]s/ca.pem}\n",
		addr, folder)))

	t.Run("failures", func(t *testing.T) {
		natsStream(t, js, jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"orders.small"}, MaxMsgSize: 10})
		natsStream(t, js, jetstream.StreamConfig{Name: "FULL", Subjects: []string{"orders.full"}, MaxMsgs: 1,
			Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1})
		quick := func(t *fsmpb.Task) { t.Spec.Target.TimeoutMs = 1 }
		for _, c := range []struct {
			subject string
			want    task.Outcome
		}{
			{"nowhere", task.Outcome{Error: `no stream takes subject "nowhere", or JetStream is off`}},
			{"orders.small", task.Outcome{Permanent: true, Error: "the message is larger than the stream takes"}},
			{"orders.full", task.Outcome{Delivered: true}},
			{"orders.full", task.Outcome{Delivered: true}}, // the same webhook-id: dropped, which counts as delivered
			{"secret", task.Outcome{Error: `the broker does not allow to publish to subject "secret"`}},
		} {
			a := attemptOf("nats://"+addr+"/"+c.subject, quick)
			a.Timeout = time.Second
			assert.Equal(t, publisher.Deliver(t.Context(), a), c.want, "%s", c.subject)
		}
		other := attemptOf("nats://"+addr+"/orders.full", func(t *fsmpb.Task) { t.WebhookId = "w-other" })
		if out := publisher.Deliver(t.Context(), other); out.Delivered || out.Permanent ||
			!strings.HasPrefix(out.Error, "the broker refused: ") {
			t.Errorf("a full stream: %+v", out)
		}
	})
	t.Run("strangers", func(t *testing.T) {
		out := newPublisher(t, permit(t, "nats://"+addr)).Deliver(t.Context(), attemptOf("nats://"+addr+"/orders.close"))
		if out.Delivered || !strings.Contains(out.Error, "Authorization Violation") {
			t.Errorf("%+v", out)
		}
		out = newPublisher(t, permit(t, "natss://"+addr)).Deliver(t.Context(), attemptOf("natss://"+addr+"/orders.close"))
		if out.Delivered || !strings.Contains(out.Error, "certificate refused") {
			t.Errorf("%+v", out)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		if out := publisher.Deliver(t.Context(), attemptOf("natss://"+addr+"/orders.close")); !out.Delivered {
			t.Errorf("%+v", out)
		}
		assert.NoError(t, natsStream(t, js, ordersStream).Purge(t.Context()))
	})
	t.Run("stream", func(t *testing.T) {
		stream(t, publisher, streamed{
			url: "nats://" + addr + "/orders.close", restart: p.restart, once: true, ce: "ce-",
			read: func() []received { return readNATS(t, addr) },
		})
	})
}
