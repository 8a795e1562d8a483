package health

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// aheadKept is the number of checkpoints kept for a replica that is ahead of this node's.
const aheadKept = 256

// ledger compares this node's replica of one shard with the others.
type ledger struct {
	replica  Replica // of this node
	restores uint64  // of that replica, when the ledger began
	others   map[string]*relation
	outvoted bool // this node's replica is outvoted; never unset
	disputed bool // this node's replica differs from another one, and neither is known to be outvoted
}

func newLedger(r Replica) *ledger {
	return &ledger{replica: r, restores: r.Restores(), others: make(map[string]*relation)}
}

// relation compares one other replica with this node's.
type relation struct {
	seen    uint64                  // highest index at which the two were compared
	equalAt recent                  // last indexes at which they were equal; at most seen
	differs *difference             // nil: equal at seen, or never compared
	ahead   []*clusterpb.Checkpoint // received checkpoints that this node's replica has not reached; rising

	outvotesUs, diverged bool // as its node last reported
	outvoted             bool // by this node's replica and others, and it still differs
}

// difference describes how two replicas have differed since they were last equal.
type difference struct {
	index, own, other uint64 // of the first difference
	at                recent // last indexes at which they differed
}

// recent holds the newest recentKept indexes, in rising order.
type recent []uint64

const recentKept = 64

func (r recent) with(index uint64) recent {
	if n := len(r); n > 0 && r[n-1] == index {
		return r
	}
	r = append(r, index)
	return r[max(0, len(r)-recentKept):]
}

func (l *ledger) of(node string) *relation {
	r := l.others[node]
	if r == nil {
		r = &relation{}
		l.others[node] = r
	}
	return r
}

// hear takes another node's report of its replica. It returns the number of newly compared indexes, and the difference
// that began, if one did; the difference may have ended again.
func (r *relation) hear(report *clusterpb.ReplicaReport, self string, mine Replica) (compared int, began *difference) {
	before := r.differs
	r.outvotesUs = slices.Contains(report.Outvoted, self)
	r.diverged = report.Diverged
	told := append(r.ahead, report.Checkpoints...)
	slices.SortStableFunc(told, func(a, b *clusterpb.Checkpoint) int { return cmp.Compare(a.Index, b.Index) })
	applied := mine.Newest().Index
	r.ahead = nil
	for i, p := range told {
		if i+1 < len(told) && told[i+1].Index == p.Index {
			continue // duplicate
		}
		if p.Index > applied {
			r.ahead = append(r.ahead, p)
			continue
		}
		if own, ok := mine.CheckpointAt(p.Index); ok && r.compare(p.Index, own.Sum, p.Hash) {
			compared++
		}
		if r.differs != nil && r.differs != before && began == nil {
			began = r.differs
		}
	}
	r.ahead = r.ahead[max(0, len(r.ahead)-aheadKept):]
	return compared, began
}

// compare compares the two hashes at one index, and reports whether the index is a new one. The highest index so far is
// compared again, since a replica whose state was made anew may be at the same index.
func (r *relation) compare(index, own, other uint64) (fresh bool) {
	if index < r.seen {
		return false
	}
	fresh = index > r.seen
	r.seen = index
	switch {
	case own == other:
		r.equalAt, r.differs, r.outvoted = r.equalAt.with(index), nil, false
		return fresh
	case r.differs == nil:
		r.differs = &difference{index: index, own: own, other: other}
	}
	r.differs.at = r.differs.at.with(index)
	return fresh
}

// judge finds the outvoted replicas among the voters of the shard.
func (l *ledger) judge(self string, voters []string) {
	l.disputed = false
	for node, r := range l.others {
		if r.differs == nil {
			continue
		}
		r.outvoted = r.outvoted || l.outvotes(r.differs.at, self, voters)
		if r.outvoted {
			continue
		}
		l.disputed = true
		if r.outvotesUs && slices.Contains(voters, node) {
			l.outvoted = true
		}
	}
}

// outvotes reports whether this node's replica and its equals were a majority at one of the indexes at which another
// replica differed.
func (l *ledger) outvotes(differed recent, self string, voters []string) bool {
	for _, index := range differed {
		supporters := 0
		for _, node := range voters {
			if node == self || l.of(node).wasEqual(index) {
				supporters++
			}
		}
		if 2*supporters > len(voters) {
			return true
		}
	}
	return false
}

func (r *relation) wasEqual(index uint64) bool {
	_, found := slices.BinarySearch(r.equalAt, index)
	return found
}

// outvotedNodes returns the nodes whose replicas this node outvotes, sorted.
func (l *ledger) outvotedNodes() []string {
	var nodes []string
	for node, r := range l.others {
		if r.outvoted {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
