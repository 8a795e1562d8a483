package clustertest

import (
	"os"
	"testing"

	"github.com/belfryhq/belfry/cluster/headroom"
)

const (
	// memory is where Linux keeps files in memory. A sync of them costs nothing. On a disk the syncs of a cluster take
	// half of its processor time, and its tests wait for the disk.
	memory = "/dev/shm"
	// room is the space that memory must have. Containers often have less. The clusters of a package that run at once need
	// a quarter of it.
	room = 1 << 30
)

// folder makes the folder for the data of a cluster's nodes, in memory if there is room. It ends with the test.
func folder(t testing.TB) string {
	if space, err := (headroom.System{Dir: memory}).Space(); err != nil || space.Free < room {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "belfry-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
