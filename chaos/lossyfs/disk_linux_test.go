package lossyfs

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// mounted mounts a disk for one test, or skips it loudly.
func mounted(t *testing.T, seed uint64) *Disk {
	t.Helper()
	gated.NeedRoot(t, Supported)
	dir := t.TempDir()
	d, err := Mount(filepath.Join(dir, "disk"), filepath.Join(dir, "backing"), seed)
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, d.Close(), nil)
	})
	return d
}

func create(t *testing.T, path string, data []byte) *os.File {
	t.Helper()
	f := createUnsynced(t, path, data)
	check(t, f.Sync())
	return f
}

func createUnsynced(t *testing.T, path string, data []byte) *os.File {
	t.Helper()
	f := must[*os.File](t)(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))
	must[int](t)(f.WriteAt(data, 0))
	return f
}

func TestSyncedStays(t *testing.T) {
	d := mounted(t, 1)
	path := filepath.Join(d.Mountpoint(), "a", "b", "file")
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	synced := bytes.Repeat([]byte{1}, 3*pageSize+100)
	f := create(t, path, synced)
	for range 10 {
		must[int](t)(f.WriteAt(bytes.Repeat([]byte{2}, pageSize), 5*pageSize))
		check(t, f.Close(), d.PowerLoss())
		got := must[[]byte](t)(os.ReadFile(path))
		if len(got) < len(synced) || !bytes.Equal(got[:len(synced)], synced) {
			t.Fatalf("%d bytes are left of %d that were synced", len(got), len(synced))
		}
		f = create(t, path, synced)
	}
	check(t, f.Close())
}

func TestFullDisk(t *testing.T) {
	d := mounted(t, 1)
	f := create(t, filepath.Join(d.Mountpoint(), "file"), make([]byte, pageSize))
	defer f.Close()
	d.Limit(3 * pageSize)
	if n, err := syscall.Pwrite(int(f.Fd()), make([]byte, 10*pageSize), pageSize); n != 3*pageSize || err != nil {
		t.Errorf("%d bytes written, %v", n, err)
	}
	_, err := f.WriteAt([]byte{1}, 4*pageSize)
	assert.ErrorIs(t, err, syscall.ENOSPC, "a write beyond the limit")
	must[int](t)(f.WriteAt(bytes.Repeat([]byte{2}, 4*pageSize), 0))
	var st syscall.Statfs_t
	check(t, syscall.Statfs(d.Mountpoint(), &st))
	assert.Equal(t, st.Bavail, 0, "pages are free")
	d.Limit(-1)
	must[int](t)(f.WriteAt(bytes.Repeat([]byte{1}, 10*pageSize), pageSize))
}
