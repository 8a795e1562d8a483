package lossyfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	fsType   = "fuse.lossyfs"
	maxWrite = 256 << 10
)

// mount is one mounting of a disk.
type mount struct {
	point  string
	server *server
	served chan struct{} // closed when no request is under way and none can come
}

func newMount(point string, s *server) (*mount, error) {
	dev, err := attach(point)
	if err != nil {
		return nil, err
	}
	// The server takes the descriptor over and does not know the mountpoint. To mount and unmount by itself, it would open
	// the device for every child process as well, and a child could then keep a dead mount alive.
	served, err := fuse.NewServer(s, fmt.Sprintf("/dev/fd/%d", dev), &fuse.MountOptions{
		MaxWrite: maxWrite, DisableXAttrs: true, DisableReadDirPlus: true, DisabledCapabilities: fuse.CAP_AUTO_INVAL_DATA,
		Logger: log.New(io.Discard, "", 0),
	})
	if err != nil {
		return nil, errors.Join(err, detach(point))
	}
	m := &mount{point: point, server: s, served: make(chan struct{})}
	go func() {
		defer close(m.served)
		served.Serve()
	}()
	if err := forgoPolling(point); err != nil {
		return nil, errors.Join(err, m.end())
	}
	return m, nil
}

// attach mounts the device, which no server reads yet.
func attach(point string) (dev int, err error) {
	dev, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening /dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other,max_read=%d",
		dev, os.Geteuid(), os.Getegid(), maxWrite)
	if err := unix.Mount(source(os.Getpid()), point, fsType, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return 0, errors.Join(fmt.Errorf("mount of %s: %w", fsType, err), unix.Close(dev))
	}
	return dev, nil
}

// detach unmounts, even while processes use the mount, and ends all calls that are under way.
func detach(point string) error {
	return unix.Unmount(point, unix.MNT_FORCE|unix.MNT_DETACH)
}

// forgoPolling makes the kernel ask once whether files can be polled, and learn that they cannot. Go's runtime polls
// every file that it opens. Without forgoPolling its last thread could wait for an answer from this same process.
func forgoPolling(point string) error {
	fd, err := unix.Open(filepath.Join(point, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0) // known to go-fuse
	if err != nil {
		return err
	}
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return errors.Join(err, unix.Close(fd))
}

// end unmounts, and returns when no call is under way any more.
func (m *mount) end() error {
	m.server.turnOff()
	if err := detach(m.point); err != nil {
		return err
	}
	<-m.served
	return nil
}

// source returns the source of a mount, which names the process that serves it.
func source(pid int) string { return "lossyfs-" + strconv.Itoa(pid) }

// sweep unmounts the file system at a point, and all file systems of this kind whose process is gone.
func sweep(point string) error {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer func() { _ = mounts.Close() }()
	var dead []string
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		at, owner, ours := parseMount(lines.Text())
		if ours && (at == point || errors.Is(unix.Kill(owner, 0), unix.ESRCH)) {
			dead = append(dead, at)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for _, at := range dead {
		if err := detach(at); err != nil && !errors.Is(err, unix.EINVAL) { // another sweep was quicker
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

// parseMount reads a line of mountinfo. It returns the mountpoint and the process that serves it; ours is false for a
// mount of another kind.
func parseMount(line string) (at string, owner int, ours bool) {
	front, back, _ := strings.Cut(line, " - ")
	place, what := strings.Fields(front), strings.Fields(back)
	if len(place) < 5 || len(what) < 2 || what[0] != fsType {
		return "", 0, false
	}
	owner, err := strconv.Atoi(strings.TrimPrefix(what[1], source(0)[:len(source(0))-1]))
	if err != nil {
		return "", 0, false
	}
	// Spaces and similar characters come as octal numbers.
	unquoted, err := strconv.Unquote(`"` + strings.ReplaceAll(place[4], `"`, `\"`) + `"`)
	if err != nil {
		return "", 0, false
	}
	return unquoted, owner, true
}

// Supported returns an error about a missing requirement, and nil if a disk can be mounted here.
func Supported() error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return fmt.Errorf("lossyfs: the kernel's FUSE device is missing (modprobe fuse, or --device /dev/fuse): %w", err)
	}
	if os.Geteuid() != 0 {
		return errors.New("lossyfs: mounting takes root")
	}
	dir, err := os.MkdirTemp("", "lossyfs-")
	if err != nil {
		return err
	}
	dev, err := attach(dir)
	if err != nil {
		return errors.Join(fmt.Errorf("lossyfs: mounting takes the capability CAP_SYS_ADMIN: %w", err), os.Remove(dir))
	}
	return errors.Join(detach(dir), unix.Close(dev), os.Remove(dir))
}
