package redisapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/certs"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
)

// rootKey makes a file with a root key.
func rootKey(t *testing.T) (file, text string) {
	t.Helper()
	_, text = access.NewKey()
	file = filepath.Join(t.TempDir(), "root.key")
	assert.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	return file, text
}

// TestKeys checks that commands have the rights of the key of AUTH, from the next command after a change on, and the
// namespace of the key.
func TestKeys(t *testing.T) {
	file, text := rootKey(t)
	simulate(t, 1, func(cfg *node.Config) { cfg.Access.RootKeyFile = file }, func(t *testing.T, w *world) {
		root := w.Client(client.Config{Key: client.NewSecret(text)})
		_, err := root.PutNamespace(t.Context(), "shop", client.Quotas{})
		assert.NoError(t, err)
		key := func(role client.Role, queues ...string) *client.NewAPIKey {
			made, err := root.CreateKey(t.Context(), client.KeyRequest{
				Name: string(role), Grants: []client.Grant{{Role: role, Namespace: "shop", Queues: queues}},
			})
			assert.NoError(t, err)
			return made
		}
		reads, writes, consumes, limited := key("read"), key("schedule"), key("consume"), key("schedule", "mails*")
		time.Sleep(time.Second) // until the keys are known
		soon := at(time.Hour)

		c := w.conn(0)
		c.want("PONG", "PING")
		c.want("NOAUTH Authentication required.", "ZADD", "q", soon, "a")
		c.want("NOAUTH Authentication required.", "ZRANGEBYSCORE", "q", 0, 1)
		c.want("WRONGPASS invalid username-password pair or user is disabled.", "AUTH", "wrong")
		c.want("WRONGPASS invalid username-password pair or user is disabled.", "AUTH", "other", writes.Key.Text())
		if got := c.ask("HELLO", 3, "AUTH", "default", "wrong"); !strings.HasPrefix(got, "WRONGPASS") {
			t.Error(got)
		}
		c.want("OK", "AUTH", "shop", writes.Key.Text())
		c.want("1", "ZADD", "q", soon, "a")
		if _, err := root.Get(t.Context(), "q:a"); err == nil {
			t.Error("the task is in another namespace")
		}
		noperm := func(name string, args ...any) {
			t.Helper()
			if got := c.ask(name, args...); !strings.HasPrefix(got, "NOPERM ") {
				t.Errorf("%s: %s", name, got)
			}
		}
		noperm("ZPOPMIN", "q")
		c.want("OK", "AUTH", reads.Key.Text())
		c.want(soon, "ZSCORE", "q", "a")
		noperm("ZADD", "q", soon, "b")
		noperm("ZREM", "q", "a")
		c.want("OK", "AUTH", consumes.Key.Text())
		c.want("[]", "ZPOPMIN", "q")
		c.want("OK", "AUTH", limited.Key.Text())
		noperm("ZADD", "q", soon, "b")
		c.want("1", "ZADD", "mails", soon, "b")
		c.want("0", "ZREM", "q", "a") // as if there were no such task
		c.want("1", "ZREM", "mails", "b")

		c.want("OK", "AUTH", writes.Key.Text())
		assert.NoError(t, root.RevokeKey(t.Context(), writes.ID))
		time.Sleep(time.Second)
		c.want("NOAUTH Authentication required.", "ZADD", "q", soon, "c")
		c.want("OK", "AUTH", reads.Key.Text())
		c.want("[a]", "ZRANGEBYSCORE", "q", 0, "inf")
	})
}

// TestQuotas checks that the quotas of a namespace hold for commands.
func TestQuotas(t *testing.T) {
	file, text := rootKey(t)
	simulate(t, 1, func(cfg *node.Config) { cfg.Access.RootKeyFile = file }, func(t *testing.T, w *world) {
		root := w.Client(client.Config{Key: client.NewSecret(text)})
		_, err := root.PutNamespace(t.Context(), "default", client.Quotas{MaxPayload: 10})
		assert.NoError(t, err)
		time.Sleep(2 * time.Second)
		c := w.conn(0)
		c.want("OK", "AUTH", text)
		c.want("1", "ZADD", "q", at(time.Hour), "short")
		if got := c.ask("ZADD", "q", at(time.Hour), "much too long"); !strings.Contains(got, "max_payload") {
			t.Error(got)
		}
		c.want("1", "ZCARD", "q")
	})
}

// TestTLS checks that the port speaks TLS with the certificate of the HTTP API.
func TestTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder, err := certs.Init(certs.Config{Dir: filepath.Join(t.TempDir(), "certs")},
			[]certs.Node{{Name: "n0", Hosts: []string{"127.0.0.1"}}})
		assert.NoError(t, err)
		path := func(file string) string { return filepath.Join(folder.NodeDir("n0"), file) }
		ca, err := os.ReadFile(path("ca.pem"))
		assert.NoError(t, err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		w := start(t, 1, func(cfg *node.Config) {
			cfg.TLS = node.TLSConfig{Cert: path("node.pem"), Key: path("node.key")}
		})
		security := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		c, err := w.dial(t.Context(), 0, redis.DialUseTLS(true), redis.DialTLSConfig(security))
		assert.NoError(t, err)
		defer c.Close()
		answer, err := redis.Int(c.Do("ZADD", "q", at(time.Hour), "a"))
		assert.NoError(t, err)
		assert.Equal(t, answer, 1)
		plain := w.conn(0)
		_, err = plain.Do("PING")
		assert.Error(t, err, "a plain connection was served")
	})
}

// TestHTTPIsRefused checks that a browser cannot be made to send commands in the body of a request.
func TestHTTPIsRefused(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		for _, head := range []string{"POST / HTTP/1.1\r\n", "PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\n"} {
			conn, err := w.Network.Dial(t.Context(), w.addrs[0])
			assert.NoError(t, err)
			_, err = io.WriteString(conn, head+"\r\nZADD q 1 a\r\n")
			assert.NoError(t, err)
			answer, _ := io.ReadAll(conn) // the connection may be reset
			if strings.Contains(string(answer), ":1") {
				t.Errorf("%q was answered %q", head, answer)
			}
			assert.NoError(t, conn.Close())
		}
		w.conn(0).want("0", "ZCARD", "q")
	})
}

// TestConnectionsEnd checks that the times for commands end connections, and that an idle one may stay for a while.
func TestConnectionsEnd(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		open := func(sent string) (ended time.Duration) {
			began := time.Now()
			conn, err := w.Network.Dial(t.Context(), w.addrs[0])
			assert.NoError(t, err)
			_, err = io.WriteString(conn, sent)
			assert.NoError(t, err)
			_, _ = io.Copy(io.Discard, conn) // until the connection ends
			assert.NoError(t, conn.Close())
			return time.Since(began).Round(time.Second)
		}
		assert.Equal(t, open(""), 30*time.Minute, "an idle connection")
		assert.Equal(t, open("*2\r\n$4\r\nECHO\r\n"), 10*time.Second, "half a command")
		assert.Equal(t, open("PING\r\n*2\r\n$4\r\nECHO\r\n"), 10*time.Second, "half a command behind another one")
		assert.Equal(t, open("*1\r\n$x\r\n"), 0, "no command")
	})
}

// TestStop checks that a node that stops ends connections, and answers the commands under way.
func TestStop(t *testing.T) {
	simulate(t, 3, nil, func(t *testing.T, w *world) {
		idle, err := w.Network.Dial(t.Context(), w.addrs[1])
		assert.NoError(t, err)
		defer idle.Close()
		c := w.conn(1)
		c.want("1", "ZADD", "q", at(time.Hour), "a")
		w.Stop(1)
		if _, err := bufio.NewReader(idle).ReadByte(); err == nil {
			t.Error("the idle connection was answered")
		}
		_, err = c.Do("PING")
		assert.Error(t, err, "the node has stopped")
		other := w.conn(0)
		other.want("[a]", "ZRANGEBYSCORE", "q", 0, "inf")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = w.dial(ctx, 1)
		assert.Error(t, err, "the port is open")
	})
}

// TestWithoutAMajority checks that a command that was certainly not carried out is answered with TRYAGAIN, and one whose
// outcome is open is not.
func TestWithoutAMajority(t *testing.T) {
	simulate(t, 3, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		c.want("1", "ZADD", "q", at(time.Hour), "a")
		w.Kill(1)
		w.Kill(2)
		got := c.ask("ZADD", "q", at(time.Hour), "b")
		if !strings.HasPrefix(got, "TRYAGAIN ") && !strings.HasPrefix(got, "ERR it is unknown whether") {
			t.Error(got)
		}
		time.Sleep(time.Minute)
		for _, words := range [][]any{{"ZADD", "q", at(time.Hour), "c"}, {"ZREM", "q", "a"}, {"ZRANGEBYSCORE", "q", 0, "inf"}} {
			if got := c.ask(words[0].(string), words[1:]...); !strings.HasPrefix(got, "TRYAGAIN ") {
				t.Errorf("%s: %s", words[0], got)
			}
		}
		w.Restart(1)
		c.want("1", "ZREM", "q", "a")
		c.want("(nil)", "ZSCORE", "q", "c")
	})
}
