package lossyfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestSyncsFail(t *testing.T) {
	d := mounted(t, 1)
	path := filepath.Join(d.Mountpoint(), "file")
	f := create(t, path, fill(1, pageSize))
	must[int](t)(f.WriteAt(fill(2, pageSize), 0))
	d.FailSync(syscall.EIO)
	assert.ErrorIs(t, f.Sync(), syscall.EIO, "fsync")
	if err := unix.Fdatasync(int(f.Fd())); err != unix.EIO {
		t.Errorf("fdatasync: %v", err)
	}
	assert.ErrorIs(t, syncPath(d.Mountpoint()), syscall.EIO, "fsync of a folder")
	d.FailSync(0)
	check(t, f.Sync(), f.Close())
	if got := must[[]byte](t)(os.ReadFile(path)); !bytes.Equal(got, fill(2, pageSize)) {
		t.Error("bytes that could not be synced cannot be read")
	}
	check(t, d.PowerLoss())
	if got := must[[]byte](t)(os.ReadFile(path)); !bytes.Equal(got, fill(1, pageSize)) {
		t.Error("a second fsync wrote pages that the first one could not write")
	}
	if s := d.Stats(); s.FailedSyncs != 3 || s.Syncs != 2 || s.DroppedPages != 1 || s.PowerLosses != 1 {
		t.Errorf("%+v", s)
	}
}

func TestWritesFail(t *testing.T) {
	d := mounted(t, 1)
	f := create(t, filepath.Join(d.Mountpoint(), "file"), fill(1, pageSize))
	defer f.Close()
	d.FailWrite(syscall.EIO)
	_, write := f.WriteAt([]byte{2}, 0)
	for what, err := range map[string]error{
		"write": write, "truncate": f.Truncate(1), "allocate": allocate(f, 2*pageSize),
		"mkdir": os.Mkdir(filepath.Join(d.Mountpoint(), "folder"), 0o700), "remove": os.Remove(f.Name()),
		"rename": os.Rename(f.Name(), f.Name()+"2"),
	} {
		assert.ErrorIs(t, err, syscall.EIO, "%s", what)
	}
	d.Heal()
	if got := must[[]byte](t)(os.ReadFile(f.Name())); !bytes.Equal(got, fill(1, pageSize)) {
		t.Error("a failed write changed the file")
	}
	must[int](t)(f.WriteAt([]byte{2}, 0))
}

func TestSyncsAreSlow(t *testing.T) {
	d := mounted(t, 1)
	f := create(t, filepath.Join(d.Mountpoint(), "file"), fill(1, 1))
	defer f.Close()
	const delay = 50 * time.Millisecond
	d.SlowSync(delay)
	began := time.Now()
	check(t, f.Sync())
	if took := time.Since(began); took < delay {
		t.Errorf("%v", took)
	}
}

// A hanging sync returns when the disk answers, not when a signal comes. It fails when the power goes.
func TestSyncsHang(t *testing.T) {
	d := mounted(t, 1)
	f := create(t, filepath.Join(d.Mountpoint(), "file"), fill(1, 1))
	hang := func() <-chan error {
		d.Stall()
		done := make(chan error, 1)
		go func() { done <- f.Sync() }()
		awaitWaiting(t, d)
		return done
	}
	done := hang()
	select {
	case err := <-done:
		t.Fatalf("a sync returned during the stall: %v", err)
	default:
	}
	if waited := d.Unstall(); waited <= 0 {
		t.Errorf("the stalled sync waited %v", waited)
	}
	check(t, <-done)

	must[int](t)(f.WriteAt(fill(2, 1), 0))
	done = hang()
	check(t, d.PowerLoss())
	assert.Error(t, <-done, "a hanging sync succeeded at the power loss")
	_ = f.Close() // the file's disk is gone
}

func awaitWaiting(t *testing.T, d *Disk) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for d.switches.waited() == 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("no sync hangs")
		case <-tick.C:
		}
	}
}

// A process that is killed while a sync hangs ends as soon as the disk answers.
func TestKilledWhileSyncsHang(t *testing.T) {
	d := mounted(t, 1)
	d.Stall()
	p := start(t, self("bolt", filepath.Join(d.Mountpoint(), "bolt.db"), "0"))
	awaitWaiting(t, d)
	check(t, p.cmd.Process.Kill())
	d.Unstall()
	_ = p.cmd.Wait()
	if !p.killed() {
		t.Errorf("the killed process ended with %v", p.cmd.ProcessState)
	}
}

func TestLocks(t *testing.T) {
	d := mounted(t, 1)
	path := filepath.Join(d.Mountpoint(), "LOCK")
	first, second := create(t, path, nil), createUnsynced(t, path, nil)
	defer second.Close()
	check(t, unix.Flock(int(first.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	if err := unix.Flock(int(second.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("a second lock: %v", err)
	}
	check(t, first.Close())
	check(t, unix.Flock(int(second.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}

// playCrash mounts a disk and waits to be killed with it.
func playCrash(mountpoint, backing string) error {
	if _, err := Mount(mountpoint, backing, 1); err != nil {
		return err
	}
	child := exec.Command("sleep", "60") // the child must not keep the dead disk alive
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println(child.Process.Pid)
	select {}
}

// The next Mount sweeps a dead mount of a killed process away, wherever it was.
func TestDeadMountIsSwept(t *testing.T) {
	d := mounted(t, 1)
	dir := t.TempDir()
	point := filepath.Join(dir, "disk")
	p := start(t, self("crash", point, filepath.Join(dir, "backing")))
	child := p.next()
	if child <= 0 {
		t.Fatal(p.err.String())
	}
	defer func() { check(t, unix.Kill(child, unix.SIGKILL)) }()
	check(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	if _, err := os.Stat(point); !errors.Is(err, syscall.ENOTCONN) {
		t.Fatalf("the dead mount answers %v", err)
	}
	other := must[*Disk](t)(Mount(filepath.Join(dir, "other"), filepath.Join(dir, "other-backing"), 1))
	check(t, other.Close())
	if mounts := string(must[[]byte](t)(os.ReadFile("/proc/self/mountinfo"))); strings.Contains(mounts, point) {
		t.Error("the dead mount is still there")
	}
	must[os.FileInfo](t)(os.Stat(d.Mountpoint())) // the living mount stays, too
}
