package lossyfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
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
