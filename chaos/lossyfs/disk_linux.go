package lossyfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Disk is a mounted file system. Its methods are safe for concurrent use.
type Disk struct {
	mountpoint, backing string
	room                *room
	switches            *switches
	counters            counters

	mu    sync.Mutex // guards the fields below; held while the disk is mounted and unmounted
	rand  *rand.Rand
	lost  Stats
	mount *mount // nil: the disk is closed
}

// Mount mounts a file system over the backing folder, whose content counts as durable. It makes the mountpoint if there
// is none. Every choice of the file system comes from the seed. Mount first unmounts what an earlier run left at the
// mountpoint, and dead mounts of this kind anywhere.
func Mount(mountpoint, backing string, seed uint64) (*Disk, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	d := &Disk{
		room: &room{limit: -1}, switches: newSwitches(), rand: rand.New(rand.NewPCG(seed, 0)),
	}
	var err error
	if d.mountpoint, err = filepath.Abs(mountpoint); err != nil {
		return nil, err
	}
	if d.backing, err = filepath.Abs(backing); err != nil {
		return nil, err
	}
	if err := sweep(d.mountpoint); err != nil {
		return nil, fmt.Errorf("lossyfs: unmounting what an earlier run left: %w", err)
	}
	if err := errors.Join(os.MkdirAll(d.mountpoint, 0o755), d.attach()); err != nil {
		return nil, fmt.Errorf("lossyfs: mounting %s: %w", mountpoint, err)
	}
	return d, nil
}

// attach loads the backing folder and mounts the disk. The caller holds d.mu, or d is new.
func (d *Disk) attach() error {
	s, err := d.load()
	if err != nil {
		return err
	}
	d.mount, err = newMount(d.mountpoint, s)
	return err
}

// load reads the backing folder as durable.
func (d *Disk) load() (*server, error) {
	d.room.empty()
	t := &names{
		tree: filepath.Join(d.backing, "tree"), attic: filepath.Join(d.backing, "attic"),
		rand: rand.New(rand.NewPCG(d.rand.Uint64(), 0)), contentOf: d.contentOf,
	}
	if err := t.load(); err != nil {
		return nil, err
	}
	return newServer(d, t), nil
}

func (d *Disk) contentOf(id uint64, size int64, path func() string, r *rand.Rand) *content {
	return newContent(d.room, rand.New(rand.NewPCG(id, r.Uint64())), size, func() (backing, error) {
		return os.OpenFile(path(), os.O_RDWR, 0)
	})
}

// PowerLoss forgets unsynced changes and mounts the disk again. It decides for each unsynced page, size and name
// whether it had got to the disk, and tears some pages. The switches stay as they are. All processes that use the disk
// must be dead: the calls of any other fail from now on, on every file that it has open.
func (d *Disk) PowerLoss() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mount == nil {
		return errClosed
	}
	m := d.mount
	d.mount = nil
	if err := m.end(); err != nil {
		return fmt.Errorf("lossyfs: unmounting %s: %w", d.mountpoint, err)
	}
	lost, err := m.server.lose()
	d.lost.add(lost)
	d.lost.PowerLosses++
	if err = errors.Join(err, m.server.end(), d.attach()); err != nil {
		return fmt.Errorf("lossyfs: power loss of %s: %w", d.mountpoint, err)
	}
	return nil
}

var errClosed = errors.New("lossyfs: the disk is closed")

// Close unmounts the disk. The `tree` of the backing folder then holds the files as processes saw them last. Close
// may be called again.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mount == nil {
		return nil
	}
	m := d.mount
	d.mount = nil
	return errors.Join(m.end(), m.server.end())
}

// FailSync makes every fsync fail from now on with errno. Pages of a failed fsync are forsaken: a later fsync does not
// try them again. Zero ends the failures.
func (d *Disk) FailSync(errno syscall.Errno) {
	d.switches.set(func(s *settings) { s.failSync = errno })
}

// SlowSync makes every fsync longer by delay. Zero ends the slowness.
func (d *Disk) SlowSync(delay time.Duration) {
	d.switches.set(func(s *settings) { s.slowSync = delay })
}

// FailWrite makes every write of file data and every change of names fail with errno. Zero ends the failures.
func (d *Disk) FailWrite(errno syscall.Errno) {
	d.switches.set(func(s *settings) { s.failWrite = errno })
}

// Stall lets no fsync return until Unstall or PowerLoss. No signal interrupts a waiting fsync, as with a disk that
// hangs: a process that is killed meanwhile ends when the disk answers.
func (d *Disk) Stall() { d.switches.set(func(s *settings) { s.stalled = true }) }

// Unstall ends Stall. It returns how long the oldest fsync has waited; 0: none waits.
func (d *Disk) Unstall() (waited time.Duration) {
	waited = d.switches.waited()
	d.switches.set(func(s *settings) { s.stalled = false })
	return waited
}

// Limit leaves room for that many bytes from now on, as statfs then reports. Writes beyond it fail with ENOSPC. A
// negative number removes the limit.
func (d *Disk) Limit(bytes int64) { d.room.leave(bytes) }

// Heal resets all switches and the limit.
func (d *Disk) Heal() {
	d.switches.set(func(s *settings) { *s = settings{} })
	d.Limit(-1)
}

// Mountpoint returns the absolute path of the mountpoint.
func (d *Disk) Mountpoint() string { return d.mountpoint }

// Stats returns the counts until now.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.lost
	s.Writes, s.WrittenBytes = d.counters.writes.Load(), d.counters.writtenBytes.Load()
	s.Syncs, s.FailedSyncs = d.counters.syncs.Load(), d.counters.failedSyncs.Load()
	s.FailedWrites = d.counters.failedWrites.Load()
	return s
}

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
