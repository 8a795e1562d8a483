package redisapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/imports"
	imported "github.com/belfryhq/belfry/imports/redis"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/redisapi"
)

// wantPart skips a test unless BELFRY_TEST_REDIS, a list with commas, names its server or library. `make test-redis`
// sets it.
func wantPart(t *testing.T, name string) {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv("BELFRY_TEST_REDIS"), ","), name) {
		t.Skipf("BELFRY_TEST_REDIS does not name %s: make test-redis", name)
	}
}

// startRedis starts a redis-server with a password, and returns its address.
func startRedis(t *testing.T, password string) (addr string) {
	t.Helper()
	wantPart(t, "redis")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	addr = l.Addr().String()
	assert.NoError(t, l.Close())
	_, port, err := net.SplitHostPort(addr)
	assert.NoError(t, err)
	dir := t.TempDir()
	log := filepath.Join(dir, "redis.log")
	p, err := child.Start(child.Config{
		Command: []string{"redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "",
			"--requirepass", password}, Log: log,
	})
	assert.NoError(t, err)
	t.Cleanup(func() { assert.Equal(t, p.SignalGroup(syscall.SIGKILL), nil); <-p.Done() })
	await(t, func() error {
		if p.Ended() {
			t.Fatalf("the server ended: %s", child.LogTail(log))
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return addr
}

// await waits until a condition returns nil, up to the end of the test's time.
func await(t *testing.T, condition func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline, bounded := t.Deadline()
	for ; ; <-ticker.C {
		err := condition()
		if err == nil {
			return
		}
		if bounded && time.Until(deadline) < 10*time.Second {
			t.Fatal(err)
		}
	}
}

// startNode starts a node with a root key on ports of this machine, and returns its address for Redis clients.
func startNode(t *testing.T) (addr, key string) {
	t.Helper()
	cfg := node.DefaultConfig()
	cfg.DataDir, cfg.HTTPAddr, cfg.PeerAddr = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "127.0.0.1:0"
	cfg.RedisAddr, cfg.BootstrapExpect, cfg.Shards = "127.0.0.1:0", 1, 4
	cfg.Access.RootKeyFile, key = rootKey(t)
	n, err := node.Start(t.Context(), cfg)
	assert.NoError(t, err)
	t.Cleanup(func() { assert.Equal(t, n.Close(), nil) })
	assert.NoError(t, n.AwaitReady(t.Context()))
	return n.RedisAddr(), key
}

// raw is a connection whose answers are compared byte by byte.
type raw struct {
	t *testing.T
	net.Conn
}

func dialRaw(t *testing.T, addr string) raw {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	assert.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return raw{t, c}
}

func (c raw) ask(words ...string) string {
	c.t.Helper()
	_, err := io.WriteString(c, redisapi.Sent(words...))
	assert.NoError(c.t, err)
	var answer bytes.Buffer
	assert.NoError(c.t, redisapi.SkipAnswer(bufio.NewReader(io.TeeReader(c, &answer))), "%q", words)
	return answer.String()
}

// TestServerAnswersAlike asks a real Redis and a node the same, in RESP2 and RESP3: errors, and random commands about a
// few members. The answers are the same, byte by byte.
func TestServerAnswersAlike(t *testing.T) {
	addr, key := startNode(t)
	real, ours := dialRaw(t, startRedis(t, key)), dialRaw(t, addr)
	alike := func(words ...string) {
		t.Helper()
		want, got := real.ask(words...), ours.ask(words...)
		if got != want {
			t.Errorf("%q:\n%q, and Redis\n%q", words, got, want)
		}
	}
	alike("ZADD", "q", "1", "a")
	alike("AUTH", "wrong")
	alike("AUTH", "nobody", "wrong")
	alike("AUTH", key)
	random := rand.New(rand.NewPCG(1, 2))
	for _, protocol := range []string{"2", "3"} {
		real.ask("HELLO", protocol)
		ours.ask("HELLO", protocol)
		q := "jobs" + protocol
		for _, words := range [][]string{
			{"PING"}, {"PING", "x"}, {"PING", "x", "y"}, {"ECHO"}, {"ECHO", "\r\n"}, {"SELECT", "0"}, {"SELECT", "x"},
			{"CLIENT", "GETNAME"}, {"CLIENT", "SETNAME", "w"}, {"CLIENT", "GETNAME"}, {"EXEC"}, {"DISCARD"},
			{"MULTI"}, {"ZCARD", q}, {"MULTI"}, {"DISCARD"}, {"HELLO", "5"}, {"HELLO", protocol, "AUTH", "default", "x"},
			{"ZADD"}, {"ZADD", q, "1"}, {"ZADD", q, "NX", "1"}, {"ZADD", q, "1", "a", "2"}, {"ZADD", q, "x", "a"},
			{"ZADD", q, "4e9", "a", "", "b"}, {"ZADD", q, "nan", "a"}, {"ZADD", q, "NX", "XX", "4e9", "a"},
			{"ZADD", q, "GT", "LT", "4e9", "a"}, {"ZADD", q, "NX", "GT", "4e9", "a"}, {"ZADD", q, "NX", "CH"},
			{"ZREM", q}, {"ZREM", q, "a"}, {"ZSCORE", q}, {"ZSCORE", q, "a"}, {"ZCARD", q}, {"ZCARD", q, "x"},
			{"ZRANGEBYSCORE", q, "0"}, {"ZRANGEBYSCORE", q, "x", "1"}, {"ZRANGEBYSCORE", q, "0", "1", "WITHSCORES"},
			{"ZRANGEBYSCORE", q, "0", "1", "LIMIT", "0"}, {"ZRANGEBYSCORE", q, "0", "1", "LIMIT", "x", "1"},
			{"ZRANGEBYSCORE", q, "0", "1", "BOTH"}, {"ZPOPMIN", q}, {"ZPOPMIN", q, "2"}, {"ZPOPMIN", q, "-1"},
			{"ZPOPMIN", q, "x"}, {"ZPOPMIN", q, "0"}, {"ZPOPMIN", q, "1", "2"},
			{"ZADD", q, "4000000000", "b", "4000000000", "a", "4.0000000005e9", `{"x": "ä\n"}`, "4000000001", "\xff\x00\r\n",
				"4000000002", "", "4000000003", " 1", "4000000004", "{\r\n}", "4000000005", "null"},
			{"ZRANGEBYSCORE", q, "-inf", "+inf"}, {"ZRANGEBYSCORE", q, "-inf", "inf", "withscores"},
			{"ZSCORE", q, "null"}, {"ZSCORE", q, `{"x": "ä\n"}`}, {"ZRANGEBYSCORE", q, "(4000000000", "(4000000002"},
		} {
			alike(words...)
		}
		member := func() string { return strconv.Itoa(random.IntN(12)) }
		// Redis 7.0 writes 17 digits, so that only fractions of powers of two are alike.
		score := func() string { return fmt.Sprint(4_000_000_100+random.IntN(1000), ".", 125*random.IntN(8)) }
		options := []string{"NX", "XX", "GT", "LT", "CH", "ch"}
		for range 400 {
			var words []string
			switch random.IntN(6) {
			case 0, 1:
				words = []string{"ZADD", q}
				for range random.IntN(3) {
					words = append(words, options[random.IntN(len(options))])
				}
				for range 1 + random.IntN(3) {
					words = append(words, score(), member())
				}
			case 2:
				words = []string{"ZREM", q, member(), member()}
			case 3:
				words = []string{"ZSCORE", q, member()}
			case 4:
				words = []string{"ZCARD", q}
			case 5:
				words = []string{"ZRANGEBYSCORE", q, "(" + score(), score(), "WITHSCORES", "LIMIT",
					strconv.Itoa(random.IntN(3)), strconv.Itoa(random.IntN(6) - 1)}
			}
			alike(words...)
		}
		alike("ZRANGEBYSCORE", q, "-inf", "inf", "WITHSCORES")

		alike("ZADD", "due"+protocol, "1000000000", "a", "1000000000.5", "b", "1000000001", "c")
		alike("ZRANGEBYSCORE", "due"+protocol, "-inf", "2000000000")
		alike("ZREM", "due"+protocol, "a")
		popped := map[string]bool{} // in any order: the two may lie in two shards
		await(t, func() error {     // until the members have come due
			got := ours.ask("ZPOPMIN", "due"+protocol)
			for _, member := range []string{"b", "c"} {
				if strings.Contains(got, "\r\n"+member+"\r\n") {
					popped[member] = true
				}
			}
			if len(popped) < 2 {
				return fmt.Errorf("popped %v", popped)
			}
			return nil
		})
		real.ask("ZPOPMIN", "due"+protocol, "2")
		alike("ZPOPMIN", "due"+protocol, "2")
		alike("ZCARD", "due"+protocol)
	}
}

// TestServerImports checks that tasks which belfry import makes of a sorted set are the members of its key here.
func TestServerImports(t *testing.T) {
	addr := startRedis(t, "secret")
	c := dialRaw(t, addr)
	c.ask("AUTH", "secret")
	members := []string{"a", `{"x": 1}`, "\xff"}
	for _, member := range members {
		c.ask("ZADD", "jobs", "4000000000", member)
	}
	source, err := imported.SortedSet(t.Context(), imported.Options{URL: "redis://:secret@" + addr + "/0", Queue: "jobs"},
		imports.Seconds, "jobs")
	assert.NoError(t, err)
	defer source.Close()
	var got, want []string
	for record, err := range source.Records(t.Context()) {
		assert.NoError(t, err)
		got = append(got, record.Task.ID)
	}
	for _, member := range members {
		want = append(want, redisapi.IDOf("jobs", member))
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.EqualSlices(t, got, want)
}

// TestServerClients runs one program for each client library, first with a real Redis and then with a node.
func TestServerClients(t *testing.T) {
	for name, command := range map[string][]string{
		"go-redis":  {filepath.Join("..", "bin", "realgoredis")},
		"redis-py":  {os.Getenv("BELFRY_REAL_PYTHON"), filepath.Join("realclients", "python.py")},
		"ioredis":   {"node", filepath.Join("realclients", "ioredis.mjs")},
		"jedis":     {"java", "-cp", os.Getenv("BELFRY_REAL_JEDIS"), filepath.Join("realclients", "java", "Program.java")},
		"redis-cli": {"bash", filepath.Join("realclients", "cli.sh")},
	} {
		t.Run(name, func(t *testing.T) {
			wantPart(t, name)
			ours, key := startNode(t)
			for at, addr := range map[string]string{"Redis": startRedis(t, key), "a node": ours} {
				host, port, err := net.SplitHostPort(addr)
				assert.NoError(t, err)
				cmd := exec.CommandContext(t.Context(), command[0], slices.Concat(command[1:], []string{host, port, key})...)
				var said bytes.Buffer
				cmd.Stderr = &said
				if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "ok" {
					t.Errorf("%s: %v\n%s%s", at, err, out, said.String())
				}
			}
		})
	}
}
