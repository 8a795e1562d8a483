package tables

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
)

// database is a server with a database "jobs", for the user "belfry" with the password "secret".
type database struct {
	url  string // as `belfry import` takes it
	jdbc string
	*sql.DB
}

// folder makes a folder that the user of a server owns, and returns the beginning of the server's commands: servers refuse
// to run as root.
func folder(t *testing.T, user string) (dir string, as []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "belfry-import-")
	assert.NoError(t, err)
	t.Cleanup(func() { assert.Equal(t, os.RemoveAll(dir), nil) })
	if os.Getuid() == 0 {
		out, err := exec.CommandContext(t.Context(), "chown", user+":", dir).CombinedOutput()
		assert.NoError(t, err, "%s", out)
		as = []string{"setpriv", "--reuid", user, "--regid", user, "--init-groups", "--"}
	}
	return dir, as
}

func runIn(t *testing.T, dir string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%v: %s", command, out)
}

// startPostgres runs a PostgreSQL.
func startPostgres(t *testing.T) *database {
	t.Helper()
	importstest.Need(t, "postgresql")
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	assert.NoError(t, err)
	program := func(name string) string { return filepath.Join(slices.Max(programs), name) }
	dir, as := folder(t, "postgres")
	password := filepath.Join(dir, "password")
	assert.NoError(t, os.WriteFile(password, []byte("secret\n"), 0o644))
	data := filepath.Join(dir, "data")
	runIn(t, dir, append(slices.Clone(as), program("initdb"), "-D", data, "-U", "belfry", "-A", "scram-sha-256",
		"--pwfile", password, "-E", "UTF8", "--no-locale", "--no-sync")...)
	addr := importstest.FreeAddr(t)
	host, port, err := net.SplitHostPort(addr)
	assert.NoError(t, err)
	d := &database{
		url:  "postgres://belfry:secret@" + addr + "/postgres?sslmode=disable",
		jdbc: "jdbc:postgresql://" + addr + "/postgres?user=belfry&password=secret",
	}
	d.DB, err = sql.Open("pgx", d.url)
	assert.NoError(t, err)
	t.Cleanup(func() { assert.Equal(t, d.Close(), nil) })
	importstest.Serve(t, child.Config{
		Command: append(slices.Clone(as), program("postgres"), "-D", data, "-h", host, "-p", port, "-k", "", "-c", "fsync=off"),
		Dir:     dir,
	}, d.Ping)
	return d
}

// startMariaDB runs a MariaDB, which speaks the protocol of MySQL.
func startMariaDB(t *testing.T) *database {
	t.Helper()
	importstest.Need(t, "mariadb")
	dir, as := folder(t, "mysql")
	runIn(t, dir, append(slices.Clone(as), "mariadb-install-db", "--no-defaults", "--datadir="+dir+"/data",
		"--auth-root-authentication-method=normal", "--skip-test-db")...)
	addr := importstest.FreeAddr(t)
	host, port, err := net.SplitHostPort(addr)
	assert.NoError(t, err)
	init := filepath.Join(dir, "init.sql")
	assert.NoError(t, os.WriteFile(init, []byte("CREATE DATABASE IF NOT EXISTS jobs;\n"+
		"CREATE USER IF NOT EXISTS belfry@'%' IDENTIFIED BY 'secret';\nGRANT ALL ON jobs.* TO belfry@'%';\n"), 0o644))
	d := &database{
		url:  "mysql://belfry:secret@" + addr + "/jobs",
		jdbc: "jdbc:mysql://" + addr + "/jobs?user=belfry&password=secret&allowPublicKeyRetrieval=true&useSSL=false",
	}
	d.DB, err = sql.Open("mysql", "belfry:secret@tcp("+addr+")/jobs")
	assert.NoError(t, err)
	t.Cleanup(func() { assert.Equal(t, d.Close(), nil) })
	importstest.Serve(t, child.Config{
		Command: append(slices.Clone(as), "mariadbd", "--no-defaults", "--datadir="+dir+"/data", "--bind-address="+host,
			"--port="+port, "--socket="+dir+"/socket", "--init-file="+init, "--default-time-zone=+00:00",
			"--innodb-flush-log-at-trx-commit=0"),
		Dir: dir,
	}, d.Ping)
	return d
}

// count returns the number that a query returns.
func (d *database) count(t *testing.T, query string) (n int) {
	t.Helper()
	assert.NoError(t, d.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// java returns a command that uses a library of Java.
func java(args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{"-Duser.timezone=UTC", "-cp", os.Getenv("BELFRY_REAL_JAVA"), "Jobs"}, args...)...)
}

func river(args ...string) *exec.Cmd { return exec.Command(os.Getenv("BELFRY_REAL_RIVER"), args...) }

// jobs are those of a fill of realriver and realjava.
const jobs = 1000

// share moves jobs beside a worker of their library. The status is 1 if CheckLibrary has left refused jobs.
func share(
	t *testing.T, b *importstest.Belfry, command func(mode string) *exec.Cmd, args []string, status int,
	name func(*client.Task) string,
) {
	t.Helper()
	b.Share(command("work"), "own", jobs, func() {
		out, err := command("fill").CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}, func() {
		_, code := b.Import(append(args, "--move", "--per-second", "200", "--prefix", "own-", "--queue", "own")...)
		assert.Equal(t, code, status, "exit status")
	}, name)
}

// ownName returns the name of a job whose worker prints the id of its task.
func ownName(task *client.Task) string { return strings.TrimPrefix(task.ID, "own-") }

func TestRiverServer(t *testing.T) {
	importstest.Need(t, "river")
	d := startPostgres(t)
	b := importstest.Start(t, 1)
	b.CheckLibrary(river("write", d.url), "river", d.url)
	assert.Equal(t, d.count(t, "SELECT count(*) FROM river_job"), 0)
	share(t, b, func(mode string) *exec.Cmd { return river(mode, d.url) }, []string{"river", d.url}, 0,
		func(task *client.Task) string {
			var name string
			_, err := fmt.Sscanf(string(task.Payload), `{"name": %q}`, &name)
			assert.Equal(t, err, nil)
			return name
		})
}

// Both servers give the same tasks.
func onServers(t *testing.T, test func(t *testing.T, d *database)) {
	importstest.Need(t, "java")
	t.Run("postgresql", func(t *testing.T) { test(t, startPostgres(t)) })
	t.Run("mariadb", func(t *testing.T) { test(t, startMariaDB(t)) })
}

func TestDBSchedulerServer(t *testing.T) {
	onServers(t, func(t *testing.T, d *database) {
		b := importstest.Start(t, 1)
		b.CheckLibrary(java("db-scheduler", "write", d.jdbc), "db-scheduler", d.url)
		assert.Equal(t, d.count(t, "SELECT count(*) FROM scheduled_tasks"), 1)
		command := func(mode string) *exec.Cmd { return java("db-scheduler", mode, d.jdbc) }
		share(t, b, command, []string{"db-scheduler", d.url}, 1, ownName)
	})
}

func TestQuartzServer(t *testing.T) {
	onServers(t, func(t *testing.T, d *database) {
		b := importstest.Start(t, 1)
		b.CheckLibrary(java("quartz", "write", d.jdbc), "quartz", d.url)
		assert.Equal(t, d.count(t, "SELECT count(*) FROM QRTZ_TRIGGERS"), 2)
		task, err := b.Get(t.Context(), "quartz:shop:mails.once-7")
		assert.NoError(t, err)
		assert.Contains(t, string(task.Payload), `"class":"Jobs$Mail","job":"job-once-7","job_group":"jobs",`+
			`"trigger":"once-7","trigger_group":"mails","job_data":"#`)
		assert.Contains(t, string(task.Payload), `order=once-7`)
		command := func(mode string) *exec.Cmd { return java("quartz", mode, d.jdbc) }
		share(t, b, command, []string{"quartz", d.url}, 1, ownName)
	})
}

// A claim outlasts its import. A row that was changed since it was read is not claimed, and one that is given back is as
// it was.
func TestTablesServerClaims(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *database{"postgresql": startPostgres, "mariadb": startMariaDB} {
		t.Run(name, func(t *testing.T) { checkClaims(t, start(t)) })
	}
}

func checkClaims(t *testing.T, d *database) {
	instant := map[bool]string{true: "TIMESTAMP(6)", false: "TIMESTAMP WITH TIME ZONE"}[strings.HasPrefix(d.url, "mysql")]
	exec := func(text string) {
		t.Helper()
		_, err := d.ExecContext(t.Context(), text)
		assert.NoError(t, err)
	}
	exec("CREATE TABLE own_tasks (task_name VARCHAR(9), task_instance VARCHAR(9), task_data VARCHAR(9), execution_time " +
		instant + " NULL, picked BOOLEAN, picked_by VARCHAR(50), last_heartbeat " + instant + " NULL, version BIGINT)")
	for i, instance := range []string{"a", "b", "c", "d"} {
		exec(fmt.Sprintf("INSERT INTO own_tasks VALUES ('t', '%s', 'x', '2030-01-01 10:00:0%d', false, NULL, NULL, 1)", instance, i))
	}
	exec("INSERT INTO own_tasks VALUES ('t', 'off', 'x', NULL, false, NULL, NULL, 1)")
	s, err := DBScheduler(context.Background(), Options{URL: d.url, Table: "own_tasks"})
	assert.NoError(t, err)
	defer s.Close()
	n, err := s.Count(t.Context())
	assert.NoError(t, err)
	assert.Equal(t, n, 4)
	records, keys := readAll(t, s)
	assert.Equal(t, keys, "a b c d ")
	exec("UPDATE own_tasks SET version = 2 WHERE task_instance = 'a'")
	exec("DELETE FROM own_tasks WHERE task_instance = 'b'")
	had, err := s.Claim(t.Context(), records)
	assert.NoError(t, err)
	assert.EqualSlices(t, had, []bool{false, false, true, true})
	assert.Equal(t, d.count(t, "SELECT count(*) FROM own_tasks WHERE picked AND picked_by = 'belfry-import'"), 2)
	records, keys = readAll(t, s)
	assert.Equal(t, keys, "c* d* a ")
	assert.NoError(t, s.Finish(t.Context(), records[:1]))
	assert.NoError(t, s.GiveBack(t.Context(), records[1:2]))
	_, keys = readAll(t, s)
	assert.Equal(t, keys, "a d ")
}
