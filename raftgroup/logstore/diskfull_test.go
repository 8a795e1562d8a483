//go:build linux

package logstore

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// smallDisk mounts a small file system with the given options. Its test is one of the kind gated.Root.
func smallDisk(t *testing.T, options string) (dir string, remount func(options string)) {
	t.Helper()
	gated.Need(t, gated.Root)
	dir = t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, options)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skipf("NOT TESTED: a log on a full disk: mounting a tmpfs needs root: %v", err)
	}
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, unix.Unmount(dir, unix.MNT_DETACH), nil, "unmounting %s", dir)
	})
	return dir, func(options string) {
		assert.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, options))
	}
}

// TestFullDisk checks that a write without room is fatal, that no acknowledged entry is lost, and that the log works
// again once there is room.
func TestFullDisk(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		disk, remount := smallDisk(t, "size=3m")
		rec := newRecorder()
		cfg := Config{Dir: filepath.Join(disk, "group"), Kind: kind, Fatal: rec.fatal, segmentSize: 512 << 10}
		s := mustOpen(t, cfg)
		var acked uint64
		for {
			if err := s.Log().StoreLogs(entries(acked+1, acked+500, 1)); err != nil {
				break
			}
			if acked += 500; acked > 1e6 {
				t.Fatal("the disk never filled")
			}
		}
		<-rec.told
		if errs := rec.all(); len(errs) != 1 || !errors.Is(errs[0], unix.ENOSPC) {
			t.Errorf("fatal errors: %v", errs)
		}
		assert.ErrorIs(t, s.Stable().SetUint64([]byte("CurrentTerm"), 2), unix.ENOSPC, "a vote after the failure")
		_ = s.Close()

		remount("size=16m")
		cfg.Fatal = noFatal(t)
		s = mustOpen(t, cfg)
		_, last, err := bounds(s.Log())
		if err != nil || last < acked {
			t.Fatalf("%d entries were acknowledged, the log ends at %d, %v", acked, last, err)
		}
		mustHold(t, s.Log(), 1, last, 1)
		mustStore(t, s, entries(last+1, last+5000, 1))
	})
}
