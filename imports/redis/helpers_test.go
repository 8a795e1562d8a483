package redis

import (
	"net"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
)

// redisServer is a redis-server that runs until the test ends.
type redisServer struct {
	t   *testing.T
	url string
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	importstest.Need(t, "redis")
	addr := importstest.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	assert.NoError(t, err)
	r := &redisServer{t, "redis://:secret@" + addr + "/1"}
	importstest.Serve(t, child.Config{Command: []string{
		"redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--requirepass", "secret",
	}}, func() error {
		conn, err := redis.DialURL(r.url)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return r
}

// ask runs a command.
func (r *redisServer) ask(command string, args ...any) any {
	r.t.Helper()
	conn, err := redis.DialURL(r.url)
	assert.NoError(r.t, err)
	defer conn.Close()
	answer, err := conn.Do(command, args...)
	assert.NoError(r.t, err, "%s", command)
	return answer
}

// keys returns the sorted names of all keys that match a pattern.
func (r *redisServer) keys(pattern string) []string {
	r.t.Helper()
	keys, err := redis.Strings(r.ask("KEYS", pattern), nil)
	assert.NoError(r.t, err)
	slices.Sort(keys)
	return keys
}
