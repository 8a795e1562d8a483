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
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

const role = "bench"

// servers are a primary and its standbys. The processes of the group are the main ones, the parents of all others. The
// primary is the first.
type servers struct {
	subject.Group
	programs string // folder
	owner    *owner
	data     []string // folders, by server
	url      string   // of the primary
}

// startServers starts a primary and its standbys, each in a folder of dir.
func (s *servers) startServers(ctx context.Context, dir string, standbys int) (err error) {
	if s.programs, err = installed.PostgreSQL(); err != nil {
		return err
	}
	if s.owner, err = runAs(); err != nil {
		return err
	}
	names := make([]string, standbys)
	for i := range names {
		names[i] = fmt.Sprintf("standby%d", i+1)
	}
	if err := s.startPrimary(ctx, filepath.Join(dir, "primary"), names); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.startStandby(ctx, filepath.Join(dir, name), name); err != nil {
			return err
		}
	}
	return nil
}

func (s *servers) startPrimary(ctx context.Context, dir string, standbys []string) error {
	data, err := s.fill(ctx, dir, "initdb", "-U", role, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if err != nil {
		return err
	}
	var settings []string
	if len(standbys) > 0 {
		settings = []string{"-c", fmt.Sprintf("synchronous_standby_names=ANY 1 (%s)", strings.Join(standbys, ", "))}
	}
	s.url, err = s.launch(ctx, dir, data, settings...)
	return err
}

// startStandby copies the primary's data. A replication slot of the standby's name keeps the log that the standby has
// not received yet.
func (s *servers) startStandby(ctx context.Context, dir, name string) error {
	data, err := s.fill(ctx, dir, "pg_basebackup", "-d", s.url+"&application_name="+name, "-R", "-C", "-S", name,
		"-c", "fast", "--no-sync")
	if err == nil {
		_, err = s.launch(ctx, dir, data)
	}
	return err
}

// fill makes a server's folder, and returns the data folder in it, which a program has filled.
func (s *servers) fill(ctx context.Context, dir, program string, args ...string) (data string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	data = filepath.Join(dir, "data")
	if err := s.owner.makeFolder(data); err != nil {
		return "", err
	}
	command := s.owner.command(filepath.Join(s.programs, program), append([]string{"-D", data}, args...)...)
	filling := exec.CommandContext(ctx, command[0], command[1:]...)
	filling.Dir = data // a folder that the owner may enter
	if out, err := filling.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return data, nil
}

// launch starts a server on its data, and returns its URL.
func (s *servers) launch(ctx context.Context, dir, data string, settings ...string) (url string, err error) {
	addrs, err := local.FreeAddrs(1)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return "", err
	}
	url = fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", role, addrs[0])
	args := append([]string{"-D", data, "-h", host, "-p", port, "-k", "", "-N", fmt.Sprint(connections + 36),
		"-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB"}, settings...)
	process, err := subject.Run(ctx, subject.Command{
		Args: s.owner.command(filepath.Join(s.programs, "postgres"), args...), Dir: dir,
		Ready: func(ctx context.Context) error { return answers(ctx, url) }, Stop: syscall.SIGINT, // aborts transactions
	})
	if err == nil {
		s.Group, s.data = append(s.Group, process), append(s.data, data)
	}
	return url, err
}

func answers(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// KillAll kills the main processes and then the others, each of which has a process group of its own.
func (s *servers) KillAll() error {
	return errors.Join(s.Group.KillAll(), s.killOthers())
}

const (
	gonePoll = 5 * time.Millisecond
	goneTime = 10 * time.Second
)

// killOthers kills the processes that work in the data folders, and returns when there are none. They would end by
// themselves after the main process, but a server cannot restart before. killOthers finds the processes in /proc;
// without /proc it does nothing.
func (s *servers) killOthers() error {
	var all error
	for _, data := range s.data {
		all = errors.Join(all, killIn(data))
	}
	return all
}

func killIn(data string) error {
	poll, deadline := time.NewTicker(gonePoll), time.Now().Add(goneTime)
	defer poll.Stop()
	for {
		pids, err := workingIn(data)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("killing process %d: %w", pid, err)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v work in %s still", pids, data)
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
