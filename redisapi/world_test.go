package redisapi_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

// world is a cluster whose nodes serve Redis clients, in a bubble of testing/synctest.
type world struct {
	*nodetest.Cluster
	t     *testing.T
	addrs []string // of the ports for Redis clients, the same at each start
	calls *client.Client
}

// simulate runs a test with n nodes in a bubble. edit, if not nil, changes their settings.
func simulate(t *testing.T, n int, edit func(cfg *node.Config), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, n, edit)
		w.calls = w.Client(client.Config{Addrs: w.URLs()})
		test(t, w)
	})
}

func start(t *testing.T, n int, edit func(cfg *node.Config)) *world {
	t.Helper()
	w := &world{t: t}
	for i := range n {
		w.addrs = append(w.addrs, fmt.Sprintf("127.0.0.1:%d", 6400+i))
	}
	w.Cluster = nodetest.Start(t, n, func(i int, cfg *node.Config) {
		cfg.RedisAddr = w.addrs[i]
		if edit != nil {
			edit(cfg)
		}
	})
	return w
}

// dial connects a client to a node.
func (w *world) dial(ctx context.Context, i int, options ...redis.DialOption) (redis.Conn, error) {
	return redis.DialContext(ctx, "tcp", w.addrs[i], append(options,
		redis.DialContextFunc(func(ctx context.Context, _, addr string) (net.Conn, error) {
			return w.Network.Dial(ctx, addr)
		}), redis.DialReadTimeout(15*time.Second))...)
}

// conn is a connection of the test. Answers are texts.
type conn struct {
	redis.Conn
	t *testing.T
}

func (w *world) conn(i int) conn {
	w.t.Helper()
	c, err := w.dial(w.t.Context(), i)
	assert.NoError(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	return conn{c, w.t}
}

// ask returns the answer to a command as a text: of an error, its message.
func (c conn) ask(name string, args ...any) string {
	c.t.Helper()
	answer, err := c.Do(name, args...)
	if err != nil {
		return err.Error()
	}
	return text(answer)
}

// text returns an answer as a text.
func text(answer any) string {
	switch a := answer.(type) {
	case nil:
		return "(nil)"
	case []byte:
		return string(a)
	case []any:
		list := make([]string, len(a))
		for i := range a {
			list[i] = text(a[i])
		}
		return fmt.Sprint(list)
	}
	return fmt.Sprint(answer)
}

// want compares the answer to a command.
func (c conn) want(want, name string, args ...any) {
	c.t.Helper()
	assert.Equal(c.t, c.ask(name, args...), want, "%s %v", name, args)
}

// at returns the score of the instant after a duration from now.
func at(d time.Duration) string {
	return strconv.FormatFloat(float64(time.Now().Add(d).UnixMilli())/1000, 'f', -1, 64)
}
