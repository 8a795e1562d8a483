package lossyfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/belfryhq/belfry/internal/gated"
)

// TestLogStoreKeepsWhatItAcknowledged runs the nodes' own log store in both kinds: preallocated segments, a database
// and replaced files, with syncs of files and folders. It runs the test program of the store's package, because this
// package does not import the parts of a node.
func TestLogStoreKeepsWhatItAcknowledged(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	gated.NeedRoot(t, Supported)
	program := filepath.Join(t.TempDir(), "logstore")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program,
		"github.com/belfryhq/belfry/raftgroup/logstore")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, kind := range []string{"wal", "boltdb", "journal"} {
		t.Run(kind, func(t *testing.T) {
			rounds(t, 60, true, func(dir string, durable int) *exec.Cmd {
				cmd := exec.Command(program, dir, strconv.Itoa(durable))
				cmd.Env = append(os.Environ(), "LOGSTORE_TEST_PLAYS="+kind)
				return cmd
			})
		})
	}
}
