package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

const role = "bench"

// server is a server that runs on a data folder.
type server struct {
	process *subject.Process
	addr    string
	data    string
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
	s.process, err = subject.Run(ctx, subject.Command{
		Args: owner.command(program, "-D", s.data, "-h", host, "-p", port, "-k", "", "-N", fmt.Sprint(connections+36),
			"-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB"),
		Dir: dir, Ready: s.ready,
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

// PIDs returns the process id of the main process, the parent of all others.
func (s *server) PIDs() []int { return s.process.PIDs() }

// KillAll kills the main process and then the others, each of which has a process group of its own.
func (s *server) KillAll() error {
	return errors.Join(s.process.Kill(), s.killOthers())
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

// stop makes the server abort open transactions, write its data and end.
func (s *server) stop() error {
	if s.process == nil {
		return nil
	}
	return errors.Join(s.process.Stop(syscall.SIGINT), s.killOthers())
}
