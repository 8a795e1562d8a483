package redis

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

// wantPart skips a test unless BELFRY_TEST_IMPORTS, a list with commas, names its server or library. `make test-imports`
// sets it.
func wantPart(t *testing.T, name string) {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv("BELFRY_TEST_IMPORTS"), ","), name) {
		t.Skipf("BELFRY_TEST_IMPORTS does not name %s: make test-imports", name)
	}
}

// redisServer is a redis-server that runs until the test ends.
type redisServer struct {
	t   *testing.T
	url string
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	wantPart(t, "redis")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	addr := l.Addr().String()
	assert.NoError(t, l.Close())
	_, port, err := net.SplitHostPort(addr)
	assert.NoError(t, err)
	dir := t.TempDir()
	log := filepath.Join(dir, "redis.log")
	p, err := child.Start(child.Config{
		Command: []string{"redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "",
			"--requirepass", "secret"},
		Log: log,
	})
	assert.NoError(t, err)
	t.Cleanup(func() { assert.Equal(t, p.SignalGroup(syscall.SIGKILL), nil); <-p.Done() })
	r := &redisServer{t, "redis://:secret@" + addr + "/1"}
	await(t, func() error {
		if p.Ended() {
			t.Fatalf("the server ended: %s", child.LogTail(log))
		}
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

// belfry is a cluster of real nodes, and the command that imports into it.
type belfry struct {
	t      *testing.T
	binary string
	addr   string
	*client.Client
}

func startBelfry(t *testing.T, nodes int, args ...string) *belfry {
	t.Helper()
	b := &belfry{t: t, binary: os.Getenv("BELFRY_BINARY")}
	cluster, err := local.Start(t.Context(), local.Config{
		Nodes: nodes, DataDir: t.TempDir(), Binary: b.binary, StartTimeout: time.Hour, ExtraArgs: args,
	})
	assert.NoError(t, err)
	t.Cleanup(cluster.Stop)
	b.addr = strings.Join(cluster.URLs(), ",")
	b.Client, err = client.New(client.Config{Addrs: cluster.URLs()})
	assert.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// command returns the command belfry import with these arguments.
func (b *belfry) command(args ...string) *exec.Cmd {
	return exec.CommandContext(b.t.Context(), b.binary, append([]string{"import"}, append(args, "--addr", b.addr, "--json")...)...)
}

// imported runs belfry import, and returns its totals and its exit status.
func (b *belfry) imported(args ...string) (totals string, code int) {
	b.t.Helper()
	cmd := b.command(args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	if strings.Contains(said.String(), "secret") {
		b.t.Errorf("the password is shown: %s", said.String())
	}
	b.t.Logf("belfry import %s: %s%s", strings.Join(args, " "), out, said.String())
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// sums returns the totals of an import as the command prints them.
func sums(read, scheduled, existing, conflicts, left, refused, same int) string {
	return fmt.Sprintf(`{"read":%d,"scheduled":%d,"existing":%d,"conflicts":%d,"left":%d,"refused":%d,"verified":`+
		`{"same":%d,"finished":0,"missing":0,"different":0}}`, read, scheduled, existing, conflicts, left, refused, same)
}
