//go:build linux

package broker

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// redisServer runs a redis-server, with and without TLS, that answers once the disk has the data.
func redisServer(t testing.TB) (addr, overTLS, folder string, p *process) {
	wantServer(t, "redis")
	ports := freePorts(t, 2)
	folder = t.TempDir()
	certificates(t, folder)
	p = startProcess(t, "Ready to accept connections", func() *exec.Cmd {
		return exec.Command("redis-server", "--bind", "127.0.0.1", "--port", fmt.Sprint(ports[0]), "--dir", folder,
			"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--requirepass", "secret",
			"--tls-port", fmt.Sprint(ports[1]), "--tls-cert-file", folder+"/cert.pem", "--tls-key-file", folder+"/key.pem",
			"--tls-ca-cert-file", folder+"/ca.pem", "--tls-auth-clients", "no")
	})
	return local(ports[0]), local(ports[1]), folder, p
}

// askRedis runs one command.
func askRedis(t *testing.T, addr, command string, args ...any) any {
	t.Helper()
	conn, err := redis.DialContext(t.Context(), "tcp", addr, redis.DialPassword("secret"))
	assert.NoError(t, err)
	defer conn.Close()
	answer, err := conn.Do(command, args...)
	assert.NoError(t, err)
	return answer
}

func readRedis(t *testing.T, addr, stream string) []received {
	t.Helper()
	entries := askRedis(t, addr, "XRANGE", stream, "-", "+").([]any)
	out := make([]received, 0, len(entries))
	for _, e := range entries {
		fields, err := redis.StringMap(e.([]any)[1], nil)
		assert.NoError(t, err)
		payload := []byte(fields["payload"])
		delete(fields, "payload")
		out = append(out, received{fields, payload})
	}
	return out
}

func TestRedisServer(t *testing.T) {
	addr, overTLS, folder, p := redisServer(t)
	publisher := newPublisher(t, withFile(t, fmt.Sprintf(
		"redis://%s: {password: secret}\nrediss://%s: {user: default, password: secret, ca: %s/ca.pem}\n", addr, overTLS, folder)))

	t.Run("failures", func(t *testing.T) {
		askRedis(t, addr, "SET", "text", "x")
		out := publisher.Deliver(t.Context(), attemptOf("redis://"+addr+"/?stream=text"))
		if out.Delivered || out.Permanent || !strings.HasPrefix(out.Error, "the broker refused: WRONGTYPE") {
			t.Errorf("no stream: %+v", out)
		}
		out = publisher.Deliver(t.Context(), attemptOf("redis://"+addr+"/99?stream=s"))
		if out.Delivered || !strings.Contains(out.Error, "DB index is out of range") {
			t.Errorf("no database: %+v", out)
		}
		out = newPublisher(t, permit(t, "redis://"+addr)).Deliver(t.Context(), attemptOf("redis://"+addr+"/?stream=s"))
		if out.Delivered || !strings.Contains(out.Error, "NOAUTH") {
			t.Errorf("a stranger: %+v", out)
		}
	})
	t.Run("TLS and maxlen", func(t *testing.T) {
		const many = 1000
		for i := range many {
			a := attemptOf("rediss://"+overTLS+"/?stream=short&maxlen=100", func(t *fsmpb.Task) { t.Fence = uint64(i) })
			if out := publisher.Deliver(t.Context(), a); !out.Delivered {
				t.Fatalf("%+v", out)
			}
		}
		if n := len(readRedis(t, addr, "short")); n < 100 || n > many/2 {
			t.Errorf("%d entries are kept", n)
		}
	})
	t.Run("list", func(t *testing.T) {
		for _, push := range []string{"", "&push=left"} {
			a := attemptOf("redis://"+addr+"/?list=l"+push, func(t *fsmpb.Task) { t.Spec.Payload = []byte("raw" + push) })
			if out := publisher.Deliver(t.Context(), a); !out.Delivered {
				t.Fatalf("%+v", out)
			}
		}
		elements, err := redis.Strings(askRedis(t, addr, "LRANGE", "l", 0, -1), nil)
		assert.NoError(t, err)
		assert.EqualSlices(t, elements, []string{"raw&push=left", "raw"})
	})
	t.Run("stream", func(t *testing.T) {
		stream(t, publisher, streamed{
			url: "redis://" + addr + "/0?stream=orders", restart: p.restart, ce: "ce-",
			read: func() []received { return readRedis(t, addr, "orders") },
		})
	})
}
