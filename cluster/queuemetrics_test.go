package cluster_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Three nodes hold every task. The sum of their metrics counts each task once, also after a leader has died. Each task
// comes due within an hour, and none within ten minutes.
func TestQueueMetricsCountEachTaskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tasks = 60
		c := clustertest.New(t, 3, nil)
		var cmds []*fsmpb.Command
		for i := range tasks {
			cmds = append(cmds, schedule(fmt.Sprint("t-", i), 30*time.Minute))
		}
		mustDo(t, c.Node(0), cmds...)
		counted := func() error {
			sum, due, dueInQueue, leaders := 0.0, 0.0, 0.0, 0
			for i := range 3 {
				if c.Node(i) == nil {
					continue
				}
				due += metric(t, c.Registry(i), "belfry_due_tasks")
				dueInQueue += metric(t, c.Registry(i), "belfry_queue_due_tasks")
				n := metric(t, c.Registry(i), "belfry_queue_pending")
				if sum += n; n > 0 {
					leaders++
				}
			}
			if sum != tasks || due != tasks || dueInQueue != tasks || leaders < 2 {
				return fmt.Errorf("%v tasks are counted, by %d nodes; %v come due, %v by queues", sum, leaders, due, dueInQueue)
			}
			return nil
		}
		c.Until("each task is counted once", counted)
		c.Crash(leaderOf(t, c, "t-0"))
		c.Until("each task is counted once by those that are left", counted)
	})
}
