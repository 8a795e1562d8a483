package lossyfs

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// BenchmarkSyncedWrite measures the usual work of a log: a write of 4 KiB and its sync.
func BenchmarkSyncedWrite(b *testing.B) {
	gated.NeedRoot(b, Supported)
	dir := b.TempDir()
	d, err := Mount(filepath.Join(dir, "disk"), filepath.Join(dir, "backing"), 1)
	assert.NoError(b, err)
	defer d.Close()
	fd, err := unix.Open(filepath.Join(d.Mountpoint(), "file"), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	assert.NoError(b, err)
	defer unix.Close(fd)
	page := fill(1, pageSize)
	for i := 0; b.Loop(); i++ {
		_, err := unix.Pwrite(fd, page, int64(i%1000)*pageSize)
		assert.NoError(b, err)
		assert.NoError(b, unix.Fdatasync(fd))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}
