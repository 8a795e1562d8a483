package control

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Fault is a replica that a copy of another one should replace.
type Fault struct {
	Shard  uint32
	Node   string
	Reason string // for people
}

// The mender's pauses.
const (
	mendLook  = 2 * time.Second
	mendAgain = 10 * time.Minute // before a replica is mended once more: a broken disk spoils each copy
)

// mender has faulty replicas replaced, during one leadership of the control group: one at a time over the cluster.
type mender struct {
	group  *Group
	shards Shards
	calm   time.Duration        // for which a fault must have lasted
	since  map[copied]time.Time // when a fault that is there was first seen
	mended map[copied]time.Time // when a replica was last mended
}

func newMender(g *Group) *mender {
	return &mender{
		group: g, shards: g.cfg.Shards, calm: g.cfg.Limits.Calm,
		since: make(map[copied]time.Time), mended: make(map[copied]time.Time),
	}
}

// run looks for faults until ctx ends.
func (m *mender) run(ctx context.Context) {
	ticker := time.NewTicker(mendLook)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		m.look(ctx, time.Now())
	}
}

// look begins to mend the first replica whose fault has lasted.
func (m *mender) look(ctx context.Context, now time.Time) {
	faults := m.shards.Faults(ctx)
	m.remember(faults, now)
	state := m.group.State()
	if mending(state) != nil {
		return
	}
	for _, f := range faults {
		if m.isDue(f, now) && m.isOutnumbered(state, f, faults) {
			m.mend(ctx, state, f, now)
			return
		}
	}
}

// remember notes since when the faults are there.
func (m *mender) remember(faults []Fault, now time.Time) {
	there := make(map[copied]bool)
	for _, f := range faults {
		at := copied{f.Shard, f.Node}
		if there[at] = true; m.since[at].IsZero() {
			m.since[at] = now
		}
	}
	maps.DeleteFunc(m.since, func(at copied, _ time.Time) bool { return !there[at] })
}

func (m *mender) isDue(f Fault, now time.Time) bool {
	at := copied{f.Shard, f.Node}
	last := m.mended[at]
	return now.Sub(m.since[at]) >= m.calm && (last.IsZero() || now.Sub(last) >= mendAgain)
}

// isOutnumbered reports whether a majority of a shard's replicas is sound and in touch, without the faulty one.
func (m *mender) isOutnumbered(state *clusterpb.ControlState, f Fault, faults []Fault) bool {
	faulty := make(map[copied]bool)
	for _, other := range faults {
		faulty[copied{other.Shard, other.Node}] = true
	}
	record, sound := Shard(state, f.Shard), 0
	for _, node := range record.GetReplicas() {
		if !faulty[copied{f.Shard, node}] && m.shards.Fit(f.Shard, node) {
			sound++
		}
	}
	return 2*sound > len(record.GetReplicas())
}

func (m *mender) mend(ctx context.Context, state *clusterpb.ControlState, f Fault, now time.Time) {
	log := m.group.cfg.Logger.With("shard", f.Shard, "node", f.Node, "reason", f.Reason)
	_, err := m.group.propose(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Mend{Mend: &clusterpb.Mend{
		Shard: f.Shard, Node: f.Node, Revision: Shard(state, f.Shard).Revision,
	}}})
	if err != nil {
		if !errors.Is(err, task.ErrNotProposed) {
			log.Warn("a faulty replica is not mended yet", "err", err)
		}
		return
	}
	m.mended[copied{f.Shard, f.Node}] = now
	log.Warn("a faulty replica is deleted and copied anew")
}
