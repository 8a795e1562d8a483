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

// Disk is a mounted file system. It is safe for concurrent use.
type Disk struct {
	mountpoint, backing string
	room                *room
	switches            *switches
	counters            counters

	mu    sync.Mutex // guards what follows; held while it is mounted and unmounted
	rand  *rand.Rand
	lost  Stats
	mount *mount // nil: it is closed
}

// Mount mounts, at a folder that is made if need be, a file system over what is in the backing folder, which is taken
// for durable. Every choice that it makes comes from the seed. What an earlier run left mounted, there or as a dead
// mount of this kind anywhere, is unmounted.
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

// attach loads the backing folder and mounts; d.mu is held or d is new.
func (d *Disk) attach() error {
	s, err := d.load()
	if err != nil {
		return err
	}
	d.mount, err = newMount(d.mountpoint, s)
	return err
}

// load takes what is in the backing folder for durable.
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

// PowerLoss forgets what was not synced: of each such page, size and name it decides whether it had got to the disk,
// and some pages tear. Then it is mounted again, with the switches as they are. All processes that use it must be dead;
// one that is not has its calls fail from now on, on whatever it has open.
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

// Close unmounts. The backing folder's `tree` then holds what processes saw last. It may be called again.
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

// FailSync makes every fsync fail from now on, with what it was to write forsaken: a later one does not try it again.
// 0: no longer.
func (d *Disk) FailSync(errno syscall.Errno) {
	d.switches.set(func(s *settings) { s.failSync = errno })
}

// SlowSync makes every fsync take that much longer. 0: no longer.
func (d *Disk) SlowSync(delay time.Duration) {
	d.switches.set(func(s *settings) { s.slowSync = delay })
}

// FailWrite makes everything fail that writes file data or makes names. 0: no longer.
func (d *Disk) FailWrite(errno syscall.Errno) {
	d.switches.set(func(s *settings) { s.failWrite = errno })
}

// Stall lets no fsync return until Unstall or PowerLoss. No signal wakes who waits, as with a disk that hangs: a
// process that is killed meanwhile ends when the disk answers.
func (d *Disk) Stall() { d.switches.set(func(s *settings) { s.stalled = true }) }

// Unstall ends Stall. It returns for how long the oldest fsync has waited; 0: none has.
func (d *Disk) Unstall() (waited time.Duration) {
	waited = d.switches.waited()
	d.switches.set(func(s *settings) { s.stalled = false })
	return waited
}

// Limit leaves room for that many bytes from now on, as statfs tells too; beyond it is ENOSPC. <0: no limit.
func (d *Disk) Limit(bytes int64) { d.room.leave(bytes) }

// Heal sets all switches back.
func (d *Disk) Heal() {
	d.switches.set(func(s *settings) { *s = settings{} })
	d.Limit(-1)
}

// Mountpoint is where it is mounted, an absolute path.
func (d *Disk) Mountpoint() string { return d.mountpoint }

// Stats is what it has done until now.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.lost
	s.Writes, s.WrittenBytes = d.counters.writes.Load(), d.counters.writtenBytes.Load()
	s.Syncs, s.FailedSyncs = d.counters.syncs.Load(), d.counters.failedSyncs.Load()
	s.FailedWrites = d.counters.failedWrites.Load()
	return s
}
