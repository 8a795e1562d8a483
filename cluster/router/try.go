package router

import (
	"context"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/fsm/task"
)

// try is one call's search for the leader of a shard.
type try struct {
	calls.Search
	r     *Router
	shard uint32
}

// lastPause is the longest pause between two tries if no news of a leader comes.
const lastPause = 100 * time.Millisecond

func (r *Router) newTry(shard uint32) *try {
	return &try{r: r, shard: shard, Search: calls.NewSearch(calls.SearchConfig{
		Shard: shard, Source: r.cfg.Leaders, Placement: r.placement, LastPause: lastPause,
	})}
}

// Search begins a search for the leader of a shard.
func (r *Router) Search(shard uint32) calls.Search { return r.newTry(shard).Search }

// at returns a node and counts the hop to it. It returns nil for "".
func (t *try) at(node string) calls.Node {
	switch node {
	case "":
		return nil
	case t.r.cfg.Self:
		t.r.metrics.local.Inc()
	default:
		t.r.metrics.hops.Inc()
	}
	return t.r.cfg.Nodes.At(node)
}

// again waits until the next try makes sense. It returns the final error when the caller's time is over.
func (t *try) again(ctx context.Context, last error) error {
	t.r.metrics.retries.Inc()
	return t.Again(ctx, last)
}

// unsettled returns the commands to try again, and the error of one of them. A command is not tried again if a later
// one about the same id, or one that shares its slot, got a final answer: a new try would reverse their order.
func unsettled(p part, answers []task.Reply) (part, error) {
	rest := part{shard: p.shard}
	var why error
	overtaken := make(map[uint32]bool) // by slot
	for i := len(answers) - 1; i >= 0; i-- {
		slot := task.Slot(p.cmds[i].Namespace, p.cmds[i].Id)
		if !calls.Repeatable(answers[i].Err) {
			overtaken[slot] = true
			continue
		}
		if !overtaken[slot] {
			rest.cmds, rest.at, why = append(rest.cmds, p.cmds[i]), append(rest.at, p.at[i]), answers[i].Err
		}
	}
	slices.Reverse(rest.cmds)
	slices.Reverse(rest.at)
	return rest, why
}
