package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

const role = "bench"

// server is a server that runs on a data folder. Its process is the main one, the parent of all others.
type server struct {
	*subject.Process
	addr string
	data string
}

func startServer(ctx context.Context, dir string) (*server, error) {
	programs, err := installed.PostgreSQL()
	if err != nil {
		return nil, err
	}
	owner, err := runAs()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := owner.makeFolder(data); err != nil {
		return nil, err
	}
	initdb := owner.command(filepath.Join(programs, "initdb"), "-D", data, "-U", role, "-A", "trust", "-E", "UTF8",
		"--no-locale", "--no-sync")
	making := exec.CommandContext(ctx, initdb[0], initdb[1:]...)
	making.Dir = data // a folder that the owner may enter
	if out, err := making.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	s := &server{data: data}
	return s, s.launch(ctx, owner, filepath.Join(programs, "postgres"), dir)
}

func (s *server) launch(ctx context.Context, owner *owner, program, dir string) error {
	addrs, err := local.FreeAddrs(1)
	if err != nil {
		return err
	}
	s.addr = addrs[0]
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	s.Process, err = subject.Run(ctx, subject.Command{
		Args: owner.command(program, "-D", s.data, "-h", host, "-p", port, "-k", "", "-N", fmt.Sprint(connections+36),
			"-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB"),
		Dir: dir, Ready: s.ready, Stop: syscall.SIGINT, // it aborts open transactions
	})
	return err
}

func (s *server) url() string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", role, s.addr)
}

func (s *server) ready(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url())
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// KillAll kills the main process and then the others, each of which has a process group of its own.
func (s *server) KillAll() error {
	return errors.Join(s.Process.KillAll(), s.killOthers())
}

const (
	gonePoll = 5 * time.Millisecond
	goneTime = 10 * time.Second
)

// killOthers kills the processes that work in the data folder, and returns when there are none. They would end by
// themselves after the main process, but the server cannot restart before. killOthers finds the processes in /proc;
// without /proc it does nothing.
func (s *server) killOthers() error {
	poll, deadline := time.NewTicker(gonePoll), time.Now().Add(goneTime)
	defer poll.Stop()
	for {
		pids, err := workingIn(s.data)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("killing process %d: %w", pid, err)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v work in %s still", pids, s.data)
		}
		<-poll.C
	}
}

// workingIn returns the processes whose working folder is dir. A zombie has no working folder.
func workingIn(dir string) ([]int, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != dir { // another user's process, or an ended one
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(link, "/proc/%d/cwd", &pid); err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// stop makes the server write its data and end.
func (s *server) stop() error {
	if s.Process == nil {
		return nil
	}
	return errors.Join(s.Process.Stop(), s.killOthers())
}

// owner is the user that runs the server. The zero owner is the user of this process.
type owner struct {
	name     string
	uid, gid int
}

// runAs returns the user postgres if this process runs as root, which the server refuses.
func runAs() (*owner, error) {
	if os.Geteuid() != 0 {
		return &owner{}, nil
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		return nil, errors.New("setpriv (Debian's package util-linux), or another user than root")
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("a user postgres (Debian's package postgresql), or another user than root: %w", err)
	}
	o := &owner{name: u.Username}
	if o.uid, err = strconv.Atoi(u.Uid); err != nil {
		return nil, err
	}
	o.gid, err = strconv.Atoi(u.Gid)
	return o, err
}

// command returns the command line that runs a program as the owner. setpriv replaces itself with the program, which
// dies with this process like any child.
func (o *owner) command(program string, args ...string) []string {
	command := append([]string{program}, args...)
	if o.name == "" {
		return command
	}
	return append([]string{
		"setpriv", "--reuid", o.name, "--regid", strconv.Itoa(o.gid), "--clear-groups", "--pdeathsig", "KILL", "--",
	}, command...)
}

// makeFolder makes a folder of the owner, and lets the owner pass through temporary folders above it.
func (o *owner) makeFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil || o.name == "" {
		return err
	}
	if err := os.Chown(path, o.uid, o.gid); err != nil {
		return err
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if err := letPass(dir); err != nil {
			return err
		}
	}
	return nil
}

// letPass lets all users pass through a folder. It leaves a folder alone that is not inside a temporary folder.
func letPass(dir string) error {
	const pass fs.FileMode = 0o001
	info, err := os.Stat(dir)
	if err != nil || info.Mode()&pass != 0 {
		return err
	}
	temporary, err := belowSticky(dir)
	if err != nil {
		return err
	}
	if !temporary {
		return fmt.Errorf("the user postgres cannot get through %s: measure in another folder, or not as root", dir)
	}
	return os.Chmod(dir, info.Mode().Perm()|pass)
}

// belowSticky reports whether a folder is below one with the sticky bit, as folders for temporary files have it.
func belowSticky(dir string) (bool, error) {
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil || info.Mode()&fs.ModeSticky != 0 {
			return err == nil, err
		}
	}
	return false, nil
}
