package siege

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/client"
)

// Plan replaces the strikers of a round.
type Plan struct {
	Name  string
	Quiet bool // no load beside the plan
	Play  func(ctx context.Context, r *Round) error

	// Before prepares the cluster before the load begins; nil: nothing does.
	Before func(ctx context.Context, r *Round) error

	apart []string // faults that it needs on a stand of its own; none: it plays on the siege's
}

// Load returns the round's load in the default namespace.
func (r *Round) Load() *workload.Load { return r.loads[0] }

// Leaders waits until all shards have leaders, and returns the name of each shard's leader. It fails after leadLimit,
// with what the cluster showed last.
func (r *Round) Leaders(ctx context.Context) (map[uint32]string, error) {
	ctx, cancel := context.WithTimeout(ctx, leadLimit)
	defer cancel()
	for {
		view, err := r.siege.stand.View(ctx)
		if err == nil && len(view.Shards) >= r.siege.cfg.Shards {
			if leaders := stand.LeadersIn(view); len(leaders) == len(view.Shards) {
				return leaders, nil
			}
		}
		if !faults.Wait(ctx, tryAgain) {
			return nil, errors.Join(fmt.Errorf("not all of %d shards have leaders: %s", r.siege.cfg.Shards, leaderless(view)),
				err, context.Cause(ctx))
		}
	}
}

// leaderless describes the shards of a view that have no leader, and the nodes that do not answer.
func leaderless(view *client.Cluster) string {
	if view == nil {
		return "no node shows the cluster"
	}
	var b strings.Builder
	b.WriteString("nodes away:")
	for _, n := range view.Nodes {
		if !n.Alive {
			fmt.Fprintf(&b, " %s", n.Name)
		}
	}
	fmt.Fprintf(&b, "; control group led by %q in term %d", view.Control.Leader, view.Control.Term)
	for _, shard := range view.Shards {
		if view.Node(shard.Leader) == nil {
			fmt.Fprintf(&b, "; shard %d in term %d: %+v", shard.ID, shard.Term, shard.Replicas)
		}
	}
	return b.String()
}

const (
	tryAgain  = 100 * time.Millisecond
	busyLimit = time.Minute // longest wait for the target of a planned fault to become free
	leadLimit = time.Minute // longest wait for the leaders of all shards: no fault lasts as long
)

// Strike strikes one fault by the name of its kind, and returns when the fault is mended. A kind that strikes leaders
// strikes the leader of the given shard (0: of any). Strike waits until all shards have leaders and the fault's target
// is free.
func (r *Round) Strike(ctx context.Context, kind string, hold time.Duration, shard uint32) error {
	return r.strike(ctx, kind, func(on *faults.Target) { on.Hold, on.Shard = hold, shard })
}

// StrikeNode strikes a fault of one node, as Strike does.
func (r *Round) StrikeNode(ctx context.Context, kind, node string) error {
	return r.strike(ctx, kind, func(on *faults.Target) { on.Node = node })
}

func (r *Round) strike(ctx context.Context, kind string, aim func(on *faults.Target)) error {
	all := faults.Kinds()
	i := slices.IndexFunc(all, func(k faults.Kind) bool { return k.Name == kind })
	if i < 0 {
		return fmt.Errorf("there is no fault %q", kind)
	}
	if _, err := r.Leaders(ctx); err != nil {
		return err
	}
	on := r.target(rand.New(rand.NewPCG(r.seed, r.planned.Add(1))))
	aim(&on)
	for end := time.Now().Add(busyLimit); ; {
		err := all[i].Strike(ctx, on)
		if err == nil {
			return nil
		}
		if !errors.Is(err, faults.ErrBusy) || time.Now().After(end) || !faults.Wait(ctx, tryAgain) {
			return r.noteSurvival(kind, err)
		}
	}
}

// Pause lets the round go on for a while without a new fault.
func (r *Round) Pause(ctx context.Context, d time.Duration) error {
	if !faults.Wait(ctx, d) {
		return ctx.Err()
	}
	return nil
}
