package stand

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// All nodes lose their power at once, again and again. Every acknowledged task is there afterwards.
func TestPowerLossOfAllNodes(t *testing.T) {
	localtest.Need(t)
	gated.NeedRoot(t, lossyfs.Supported)
	s, err := Open(t.Context(), Config{
		Binary: localtest.Build(t), Dir: t.TempDir(), Shards: 1, Disks: true,
	})
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, s.Close(), nil)
	}()
	came := receive(t, s.ReceiverHost())
	for i := range 3 {
		id := fmt.Sprintf("task-%d", i)
		awaitWrite(t, s, s.Names()[i%3], id, came.url)
		assert.NoError(t, s.Kill(s.Names()...))
		for _, d := range s.Disks {
			assert.NoError(t, d.PowerLoss())
		}
		assert.NoError(t, s.Start(s.Names()...))
		came.await(t, id)
	}
	awaitEqualReplicas(t, s)
}
