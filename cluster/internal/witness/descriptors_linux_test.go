package witness

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/durable"
)

// TestWithoutDescriptors checks that a table outlives a lack of file descriptors. It is written without one more, and if
// it has outgrown its file, once there are some.
func TestWithoutDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Dir: t.TempDir(), Node: "a", New: true, Fatal: func(err error) { t.Errorf("fatal: %v", err) }}
		table, err := Open(cfg)
		assert.NoError(t, err)
		var before syscall.Rlimit
		assert.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
		assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: before.Max}))
		_, err = table.Claim("b", Run{Boot: 1})
		_, grown := table.Claim("c", Run{Boot: 1, Addr: strings.Repeat("a", leastSlot)})
		assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
		if err != nil || !durable.LacksDescriptors(grown) {
			t.Errorf("without a descriptor: %v, and with a larger table %v", err, grown)
		}
		if newest, err := table.Claim("b", Run{Boot: 2}); err != nil || newest.Boot != 2 {
			t.Errorf("later: %v, %v", newest, err)
		}
		assert.Equal(t, table.Close(), nil)
	})
}
