package shard

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The limits with which package dispatch grants a backlog.
const (
	burst     = 512
	minRest   = 5 * time.Millisecond
	maxRest   = 80 * time.Millisecond
	usersStay = time.Second
)

// mustWait schedules due tasks of a queue without consumers.
func mustWait(t *testing.T, n *node, queue string, tasks int) {
	t.Helper()
	var cmds []*fsmpb.Command
	for i := range tasks {
		cmds = append(cmds, inQueue(queue, fmt.Sprintf("%s-%d", queue, i), time.Now()))
	}
	n.mustAll(t, cmds)
	time.Sleep(2 * usersStay)
}

// bursts returns the number of tasks that came together, and the instant, for each burst.
func (p *puller) bursts() (sizes []int, at []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, now := range p.at {
		if len(at) == 0 || !at[len(at)-1].Equal(now) {
			sizes, at = append(sizes, 0), append(at, now)
		}
		sizes[len(sizes)-1]++
	}
	return sizes, at
}

const backlog = 6*burst + 1

// TestBacklogRestsForUsers checks that a backlog is handed over in bursts with rests between them while users call.
// Each queue with a backlog has its turn, and tasks that come due elsewhere are not delayed.
func TestBacklogRestsForUsers(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		mustWait(t, n, "red", backlog)
		mustWait(t, n, "blue", backlog)
		punctual, _ := n.lease(t, "green", backlog, time.Minute)
		n.must(t, inQueue("green", "a", time.Now().Add(time.Minute)))
		began := time.Now()
		red, _ := n.lease(t, "red", backlog, time.Minute)
		synctest.Wait() // red has its first burst alone, so its last one comes before blue's
		blue, _ := n.lease(t, "blue", backlog, time.Minute)
		for i := range 20 {
			n.must(t, inQueue("green", fmt.Sprint(i), time.Now()))
			time.Sleep(maxRest)
		}
		synctest.Wait()
		if late := slices.MaxFunc(punctual.at, time.Time.Compare).Sub(began); late > 19*maxRest || len(punctual.at) != 20 {
			t.Errorf("%d punctual tasks, the last after %v", len(punctual.at), late)
		}
		_, ends := red.bursts()
		_, others := blue.bursts()
		if len(ends) < backlog/burst || len(others) < backlog/burst ||
			ends[2].Before(others[0]) || others[2].Before(ends[0]) {
			t.Errorf("red at %v, blue at %v", ends, others)
		}
		all := slices.SortedFunc(slices.Values(slices.Concat(red.at, blue.at)), time.Time.Compare)
		if len(all) != 2*backlog || all[len(all)-1].Sub(began) > 2*backlog/burst*maxRest {
			t.Fatalf("%d tasks, the last after %v", len(all), all[len(all)-1].Sub(began))
		}
		// With less than a burst left, a queue has no backlog any more, and no rest follows its last tasks.
		const rested = backlog - burst - 1
		all = slices.SortedFunc(slices.Values(slices.Concat(red.at[:rested], blue.at[:rested])), time.Time.Compare)
		for i := burst; i < len(all); i++ {
			if gap := all[i].Sub(all[i-burst]); gap < minRest {
				t.Fatalf("%d tasks within %v", burst+1, gap)
			}
		}
	})
}

// TestBacklogAlone checks that consumers who only settle their tasks cause no rests.
func TestBacklogAlone(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		mustWait(t, n, "red", 1)
		first, _ := n.lease(t, "red", 1, time.Minute)
		synctest.Wait()
		mustWait(t, n, "blue", backlog)
		n.must(t, settleOf(first.tasks[0], fsmpb.Verdict_VERDICT_DELIVERED))
		p, _ := n.lease(t, "blue", backlog, time.Minute)
		synctest.Wait()
		if len(p.tasks) != backlog {
			t.Errorf("%d of %d tasks came at once", len(p.tasks), backlog)
		}
	})
}
