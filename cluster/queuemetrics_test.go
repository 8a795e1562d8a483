package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/internal/clustertest"
)

// Three nodes hold every task. The sum of their metrics counts each task once, also after a leader has died.
func TestQueueMetricsCountEachTaskOnce(t *testing.T) {
	t.Parallel()
	const tasks = 60
	c := clustertest.New(t, 3, nil)
	for i := range tasks {
		mustDo(t, c.Node(i%3), schedule(fmt.Sprint("t-", i), time.Hour))
	}
	counted := func() error {
		sum, leaders := 0.0, 0
		for i := range 3 {
			if c.Node(i) == nil {
				continue
			}
			n := gauge(t, c.Registry(i), "belfry_queue_pending")
			if sum += n; n > 0 {
				leaders++
			}
		}
		if sum != tasks || leaders < 2 {
			return fmt.Errorf("%v tasks are counted, by %d nodes", sum, leaders)
		}
		return nil
	}
	c.Until("each task is counted once", counted)
	c.Crash(leaderOf(t, c, "t-0"))
	c.Until("each task is counted once by those that are left", counted)
}
