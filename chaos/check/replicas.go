package check

import (
	"fmt"

	"github.com/belfryhq/belfry/chaos/history"
)

// Replicas checks invariant 11 from outside the cluster:
//
//   - At rest every node's own replica shows each task as the linearizable read did.
//   - All replicas of a shard have applied the same number of entries, to the same hash, and every node reports its
//     hash.
//   - No node ever reported that a replica differs from the others.
func Replicas(x *Index) Finding {
	f := Finding{Invariant: "11", Promise: "replicas are equal"}
	reads := 0
	for _, t := range x.order {
		reads += t.compareReplicas(&f)
	}
	copies, compared := x.compareProgress(&f)
	f.Observe(reads, "reads of single replicas compared")
	f.Observe(compared, "replicas' positions and hashes compared with another's")
	f.figures("%d reads of single replicas compared, %d replicas' positions", reads, copies)
	return f
}

func (t *task) compareReplicas(f *Finding) int {
	var want *history.Call
	if last := t.last(); last != nil && last.Final {
		want = last
	}
	compared := 0
	for _, r := range t.stale {
		if !r.Final || !answered(r) {
			continue
		}
		if want == nil {
			want = r
			continue
		}
		compared++
		if a, b := stateText(want), stateText(r); a != b {
			f.breach(r.Start, t.id, "%s shows %s (%s), %s shows %s (%s)", want.Node, a, want.Kind, r.Node, b, r.Kind)
		}
	}
	return compared
}

// stateText returns the part of an answer that must be equal on all replicas.
func stateText(c *history.Call) string {
	if c.Outcome != history.OK {
		return "no task"
	}
	a := c.Answer
	return fmt.Sprintf("revision %d, %s, %d attempts, due %d, body %x", a.Revision, a.State, a.Attempts, a.FireAt, a.Body)
}

func (x *Index) compareProgress(f *Finding) (copies, compared int) {
	first := map[uint32]history.Replica{}
	for _, r := range x.h.Replicas {
		if r.Diverged {
			f.breach(r.At, "", "shard %d: the replica of %s has diverged, say the nodes (applied %d, hash %q)",
				r.Shard, r.Node, r.Applied, r.Hash)
			continue
		}
		copies++
		if r.Hash == "" {
			f.breach(r.At, "", "shard %d: no hash is known of the replica of %s", r.Shard, r.Node)
		}
		p, ok := first[r.Shard]
		if !ok {
			first[r.Shard] = r
			continue
		}
		compared++
		if p.Applied != r.Applied || p.Hash != r.Hash {
			f.breach(r.At, "", "shard %d: %s has applied %d (hash %q), %s %d (hash %q)",
				r.Shard, p.Node, p.Applied, p.Hash, r.Node, r.Applied, r.Hash)
		}
	}
	return copies, compared
}
