package relay

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
)

// eachServer runs a test with each database that BELFRY_TEST_RELAY names, a list with commas. `make test-relay` sets it.
func eachServer(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	for name, start := range map[string]func(*testing.T) *server{"postgresql": startPostgres, "mariadb": startMariaDB} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(strings.Split(os.Getenv("BELFRY_TEST_RELAY"), ","), name) {
				t.Skipf("BELFRY_TEST_RELAY does not name %s: make test-relay", name)
			}
			s := start(t)
			text, err := DDL(s.Dialect, DefaultTable)
			assert.NoError(t, err)
			for _, statement := range splitDDL(text) {
				s.exec(statement)
			}
			test(t, s)
		})
	}
}

// splitDDL returns the statements of a text. Those of a function stay together.
func splitDDL(text string) (statements []string) {
	for part := range strings.SplitSeq(text, ";\n\n") {
		statements = append(statements, part)
	}
	return statements
}

// server is a database server with an outbox. It runs until the test ends.
type server struct {
	t *testing.T
	*Database
	url     string
	command []string
	log     string
	process *child.Child
}

// startPostgres starts a PostgreSQL, which refuses to run as root, as the user of Debian's package if need be.
func startPostgres(t *testing.T) *server {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	assert.NoError(t, err)
	if len(found) == 0 {
		t.Fatal("no /usr/lib/postgresql/*/bin: make test-relay")
	}
	programs, dir := found[len(found)-1], folder(t)
	var prefix []string
	if os.Geteuid() == 0 {
		owner, err := user.Lookup("postgres")
		assert.NoError(t, err)
		uid, err := strconv.Atoi(owner.Uid)
		assert.NoError(t, err)
		gid, err := strconv.Atoi(owner.Gid)
		assert.NoError(t, err)
		assert.NoError(t, os.Chown(dir, uid, gid))
		prefix = []string{"setpriv", "--reuid", owner.Uid, "--regid", owner.Gid, "--clear-groups", "--pdeathsig", "KILL", "--"}
	}
	data := filepath.Join(dir, "data")
	run(t, dir, append(prefix, filepath.Join(programs, "initdb"), "-D", data, "-U", "shop", "-A", "trust", "-E", "UTF8",
		"--no-locale", "--no-sync")...)
	addr, host, port := freeAddr(t)
	s := &server{t: t, url: "postgres://shop@" + addr + "/postgres?sslmode=disable", log: filepath.Join(dir, "log")}
	s.command = append(prefix, filepath.Join(programs, "postgres"), "-D", data, "-h", host, "-p", port, "-k", "")
	s.open()
	return s
}

// startMariaDB starts a MariaDB.
func startMariaDB(t *testing.T) *server {
	t.Helper()
	dir := folder(t)
	account, err := user.Current()
	assert.NoError(t, err)
	data := filepath.Join(dir, "data")
	run(t, dir, "mariadb-install-db", "--no-defaults", "--user="+account.Username, "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db")
	addr, host, port := freeAddr(t)
	s := &server{t: t, url: "mysql://root@" + addr + "/mysql", log: filepath.Join(dir, "log")}
	s.command = []string{
		"mariadbd", "--no-defaults", "--user=" + account.Username, "--datadir=" + data, "--bind-address=" + host,
		"--port=" + port, "--socket=" + filepath.Join(dir, "socket"),
	}
	s.open()
	s.exec("CREATE DATABASE shop")
	assert.NoError(t, s.Close())
	s.url = "mysql://root@" + addr + "/shop"
	s.Database, err = Open(s.url, "")
	assert.NoError(t, err)
	return s
}

// folder returns a new folder that other users may enter.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay")
	assert.NoError(t, err)
	t.Cleanup(func() { assert.Equal(t, os.RemoveAll(dir), nil) })
	assert.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func run(t *testing.T, dir string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

func freeAddr(t *testing.T) (addr, host, port string) {
	t.Helper()
	addrs, err := local.FreeAddrs(1)
	assert.NoError(t, err)
	host, port, err = net.SplitHostPort(addrs[0])
	assert.NoError(t, err)
	return addrs[0], host, port
}

// open starts the server for the first time, and connects.
func (s *server) open() {
	s.t.Helper()
	var err error
	s.Database, err = Open(s.url, "")
	assert.NoError(s.t, err)
	s.t.Cleanup(func() {
		assert.Equal(s.t, s.Close(), nil)
		s.kill()
	})
	s.start()
}

func (s *server) start() {
	s.t.Helper()
	var err error
	s.process, err = child.Start(child.Config{Command: s.command, Log: s.log, Dir: filepath.Dir(s.log)})
	assert.NoError(s.t, err)
	importstest.Await(s.t, func() error {
		if s.process.Ended() {
			s.t.Fatalf("the server ended: %s", child.LogTail(s.log))
		}
		return s.Ping()
	})
}

// kill kills the server. The other processes of a PostgreSQL, which work in the folder of the data, end when they see that
// the first one has. The next server needs their memory.
func (s *server) kill() {
	s.t.Helper()
	assert.Equal(s.t, s.process.SignalGroup(syscall.SIGKILL), nil)
	<-s.process.Done()
	data := filepath.Join(filepath.Dir(s.log), "data")
	importstest.Await(s.t, func() error {
		links, err := filepath.Glob("/proc/[0-9]*/cwd")
		for _, link := range links {
			if dir, err := os.Readlink(link); err == nil && dir == data {
				return fmt.Errorf("%s: a process lives still", link)
			}
		}
		return err
	})
}

func (s *server) exec(statement string, args ...any) {
	s.t.Helper()
	_, err := s.Exec(s.text(statement), args...)
	assert.NoError(s.t, err, "%s", statement)
}

// insert adds a row in a transaction of its own. A nil task is SQL's NULL.
func (s *server) insert(op, taskID string, task any) {
	s.t.Helper()
	s.exec(insertRow, op, taskID, task)
}

const insertRow = `INSERT INTO {T} (op, task_id, task) VALUES (?, ?, ?)`

// number returns the number that a query finds.
func (s *server) number(query string, args ...any) (n int) {
	s.t.Helper()
	assert.NoError(s.t, s.QueryRow(s.text(query), args...).Scan(&n))
	return n
}

// states returns the rows as lines.
func (s *server) states() (lines []string) {
	s.t.Helper()
	found, err := s.Query(s.text(`SELECT task_id, state, COALESCE(answer, '') FROM {T} ORDER BY id`))
	assert.NoError(s.t, err)
	assert.NoError(s.t, each(found, func() error {
		var id, state, answer string
		defer func() { lines = append(lines, strings.TrimSpace(id+" "+state+" "+answer)) }()
		return found.Scan(&id, &state, &answer)
	}))
	return lines
}

// belfry is a cluster of real nodes, and the command that relays to it.
type belfry struct {
	t       *testing.T
	binary  string
	cluster *local.Cluster
	*client.Client
}

func startBelfry(t *testing.T, nodes int) *belfry {
	t.Helper()
	b := &belfry{t: t, binary: os.Getenv("BELFRY_BINARY")}
	var err error
	b.cluster, err = local.Start(t.Context(), local.Config{
		Nodes: nodes, DataDir: t.TempDir(), Binary: b.binary, StartTimeout: time.Hour,
	})
	assert.NoError(t, err)
	t.Cleanup(b.cluster.Stop)
	b.Client, err = client.New(client.Config{Addrs: b.cluster.URLs()})
	assert.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// relay starts the command belfry relay, and returns it with the address of its metrics.
func (b *belfry) relay(s *server, flags ...string) (process *child.Child, metrics string) {
	b.t.Helper()
	addr, _, _ := freeAddr(b.t)
	log := filepath.Join(b.t.TempDir(), "relay.log")
	var err error
	process, err = child.Start(child.Config{
		Command: append([]string{
			b.binary, "relay", "--addr", strings.Join(b.cluster.URLs(), ","), "--metrics", addr, "--poll", "50ms",
		}, flags...),
		Env: append(os.Environ(), relayDatabase+"="+s.url), Log: log,
	})
	assert.NoError(b.t, err)
	b.t.Cleanup(func() {
		assert.Equal(b.t, process.SignalGroup(syscall.SIGKILL), nil)
		<-process.Done()
		if b.t.Failed() {
			b.t.Logf("a relay: %s", child.LogTail(log))
		}
	})
	return process, "http://" + addr
}

const relayDatabase = "BELFRY_RELAY_DATABASE"

// status returns the status of a page, 0 without an answer.
func status(t *testing.T, url string) int {
	t.Helper()
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	assert.NoError(t, err)
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return 0
	}
	assert.NoError(t, answer.Body.Close())
	return answer.StatusCode
}
