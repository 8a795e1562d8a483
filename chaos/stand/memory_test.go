package stand

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// A process that takes more memory than it is left is killed. A process without a bound is not.
func TestMemory(t *testing.T) {
	if err := MemorySupported(); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	m, err := newMemory(filepath.Join(memoryRoot(), "belfry-test-"+strconv.FormatInt(time.Now().UnixNano(), 36)))
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, m.close(), nil)
	})
	hungry := func() error { // tail holds its input in memory
		args := append(m.command(), "/bin/sh", "-c", "head -c 64000000 /dev/zero | tail -c 60000000 >/dev/null")
		return exec.CommandContext(t.Context(), args[0], args[1:]...).Run()
	}
	assert.Equal(t, hungry(), nil, "without a bound")
	assert.NoError(t, m.Squeeze(16<<20))
	var exit *exec.ExitError
	if err := hungry(); !errors.As(err, &exit) {
		t.Errorf("with room for 16 MiB: %v", err)
	}
	events := "memory.oom_control"
	if memoryRoot() == cgroupV2 {
		events = "memory.events"
	}
	if n, err := m.count(events, "oom_kill "); err != nil || n == 0 {
		t.Errorf("%d kills, %v", n, err)
	}
	assert.Equal(t, m.Release(), nil)
	assert.Equal(t, hungry(), nil, "after Release")
}
