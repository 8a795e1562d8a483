package lossyfs

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/internal/gated"
)

// BenchmarkSyncedWrite measures the usual work of a log: a write of 4 KiB and its sync.
func BenchmarkSyncedWrite(b *testing.B) {
	gated.NeedRoot(b, Supported)
	dir := b.TempDir()
	d, err := Mount(filepath.Join(dir, "disk"), filepath.Join(dir, "backing"), 1)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	fd, err := unix.Open(filepath.Join(d.Mountpoint(), "file"), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fd)
	page := fill(1, pageSize)
	for i := 0; b.Loop(); i++ {
		if _, err := unix.Pwrite(fd, page, int64(i%1000)*pageSize); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(fd); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}
