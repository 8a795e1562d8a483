package shard

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// holders stands for the nodes whose consumers hold leases, as a new leader asks them.
type holders struct {
	mu      sync.Mutex
	asked   [][]uint64
	answers func(try int) []desk.Arrivals
}

func (h *holders) Arrived(_ context.Context, _ uint32, fences []uint64) []desk.Arrivals {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, slices.Clone(fences))
	return h.answers(len(h.asked))
}

// calls returns the fences of each call.
func (h *holders) calls() [][]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// leaseFor makes a consumer of the given holder lease the only task that is ready.
func (n *node) leaseFor(t *testing.T, holder uint32, id string) *fsmpb.Task {
	t.Helper()
	n.must(t, inQueue("work", id, time.Now()))
	p := &puller{}
	d, err := n.Lease(task.LeaseRequest{
		Namespace: "default", Queue: "work", Max: 1, Lease: time.Hour, Holder: holder,
	}, p)
	assert.NoError(t, err)
	time.Sleep(time.Second)
	synctest.Wait()
	d.Withdraw()
	assert.MustEqual(t, p.ids(), id)
	return p.tasks[0]
}

// TestLeasesThatDiedWithTheirLeader checks that the next leader asks the nodes, and gives back the leases that did not
// reach a node that answers.
func TestLeasesThatDiedWithTheirLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &holders{}
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Consumers = h })
		c.startAll()
		n := c.leader()
		c.next(n, nil)
		came := n.leaseFor(t, 7, "came")
		lost := n.leaseFor(t, 7, "lost")
		slow := n.leaseFor(t, 8, "slow")
		gone := n.leaseFor(t, 9, "gone")
		n.leaseFor(t, 0, "unknown")
		done := n.leaseFor(t, 7, "done")
		n.must(t, settleOf(done, fsmpb.Verdict_VERDICT_DELIVERED))
		h.answers = func(try int) []desk.Arrivals {
			answers := []desk.Arrivals{{Holder: 7, Fences: []uint64{came.Fence}}}
			if try == 2 {
				answers = append(answers, desk.Arrivals{Holder: 8})
			}
			return answers
		}
		dead := n.cfg.NodeID
		c.kill(dead)
		next := c.leader(c.others(dead)...)
		c.next(next, nil)
		time.Sleep(2 * time.Second)
		for id, want := range map[string]fsmpb.State{
			"came": fsmpb.State_STATE_FIRING, "lost": fsmpb.State_STATE_READY, "slow": fsmpb.State_STATE_READY,
			"gone": fsmpb.State_STATE_FIRING, "unknown": fsmpb.State_STATE_FIRING, "done": fsmpb.State_STATE_DELIVERED,
		} {
			assert.Equal(t, next.state(t, id), want, "%s", id)
		}
		want := [][]uint64{
			{came.Fence, lost.Fence, slow.Fence, gone.Fence}, {slow.Fence, gone.Fence}, {gone.Fence},
		}
		if asked := h.calls(); !slices.EqualFunc(asked, want, slices.Equal) {
			t.Errorf("asked for %v, not %v", asked, want)
		}
		p, _ := next.lease(t, "work", 10, time.Hour)
		synctest.Wait()
		again := p.tasks
		slices.SortFunc(again, func(a, b *fsmpb.Task) int { return int(a.FireAtMs - b.FireAtMs) })
		if len(again) != 2 || again[0].Id != "lost" || again[0].Attempts != 1 || again[0].Fence <= lost.Fence {
			t.Errorf("leased again: %v", again)
		}
		r := next.must(t, settleOf(lost, fsmpb.Verdict_VERDICT_DELIVERED))
		assert.Equal(t, r.Code, fsmpb.Code_CODE_STALE, "the ack of the lease that was given back: %v", r)
		for _, task := range []*fsmpb.Task{came, gone} {
			r := next.must(t, settleOf(task, fsmpb.Verdict_VERDICT_DELIVERED))
			assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "the ack of %s: %v", task.Id, r)
		}
	})
}
