package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

// A cluster of three nodes outlives the death of one, which comes back with its data.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Shards = 3 })
		calls := c.Client(client.Config{})
		for i := range 3 {
			_, err := calls.Schedule(t.Context(), client.Task{ID: nodetest.Name(i), Delay: time.Hour})
			assert.NoError(t, err)
		}
		c.Kill(0)
		begun := time.Now()
		for i := range 3 {
			_, err := calls.Cancel(t.Context(), nodetest.Name(i))
			assert.Equal(t, err, nil)
		}
		if took := time.Since(begun); took == 0 || took > 10*time.Second {
			t.Errorf("the others lead after %v", took)
		}
		c.Restart(0)
		_, err := c.Client(client.Config{Addrs: []string{c.URL(0)}, FixedAddrs: true}).Get(t.Context(), "n1")
		assert.Equal(t, err, nil)
	})
}
