package calls

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Beliefs holds the believed leader of each shard. A belief has three sources, and the first that names a leader wins:
//
//  1. Raft, on a node that holds a replica. Later terms win; in one term, a name wins over none.
//  2. A hint of gossip. Any sender may have forged it, so its term counts among hints only, and a call that it misled
//     drops it.
//  3. The node that answered as the leader after a call had to look for it. When the replica here has gone, the leader
//     that it knew counts as such an answer.
type Beliefs struct {
	news atomic.Uint64 // how often a belief has changed

	mu     sync.Mutex
	shards map[uint32]*belief
}

type belief struct {
	term     uint64
	raft     string // leader of the term by the replica here; empty: not known
	hint     hint
	doubted  hint          // last dropped hint
	answered string        // leader that a call found
	leader   string        // believed leader: the first of raft, hint and answered
	changed  chan struct{} // closed at the next news
}

// hint is the last hint of gossip. No leader: there is none.
type hint struct {
	term   uint64
	leader string
	at     time.Time // when it was last heard, or dropped
}

func (h hint) says(term uint64, leader string) bool { return h.term == term && h.leader == leader }

// hintLife is how long a hint keeps off hints with lower terms without being heard again: three announcements, of which
// a leader makes one every 3 s. doubtLife is how long a dropped hint is not believed again.
const (
	hintLife  = 10 * time.Second
	doubtLife = 10 * time.Second
)

// NewBeliefs returns Beliefs without any belief.
func NewBeliefs() *Beliefs { return &Beliefs{shards: make(map[uint32]*belief)} }

// Note records the leader that a replica here knows from Raft, and reports whether that was news.
func (l *Beliefs) Note(shard uint32, term uint64, leader string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.at(shard)
	if term < b.term || term == b.term && (leader == b.raft || leader == "") {
		return false
	}
	b.term, b.raft = term, leader
	if b.hint.term < term || b.hint.term == term && leader != "" {
		b.hint = hint{}
	}
	b.answered = ""
	b.settle()
	l.tell(b)
	return true
}

// Hint takes a hint of gossip, and reports whether it was new and is believed.
func (l *Beliefs) Hint(shard uint32, term uint64, leader string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, now := l.at(shard), time.Now()
	switch {
	case leader == "" || b.raft != "" || term < b.term:
		return false
	case b.hint.says(term, leader):
		b.hint.at = now
		return false
	case b.doubted.says(term, leader) && now.Sub(b.doubted.at) < doubtLife:
		return false
	case b.hint.leader != "" && term <= b.hint.term && now.Sub(b.hint.at) < hintLife:
		return false
	}
	b.hint = hint{term, leader, now}
	l.settle(b)
	return true
}

// Doubt records that a node was asked as the leader and does not lead, or cannot be reached. It drops the hint and the
// answer that named the node. It does nothing if Raft names a leader.
func (l *Beliefs) Doubt(shard uint32, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.at(shard)
	if node == "" || b.leader != node || b.raft != "" {
		return
	}
	if b.hint.leader == node {
		b.dropHint()
	}
	if b.answered == node {
		b.answered = ""
	}
	l.settle(b)
}

// Answered records that a node has answered as the leader. It drops a hint that names another one.
func (l *Beliefs) Answered(shard uint32, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.at(shard)
	b.answered = node
	if b.hint.leader != "" && b.hint.leader != node {
		b.dropHint()
	}
	l.settle(b)
}

// Left records that the replica here has gone, so that Raft names no further leader. The last one stays until a hint
// names another one or a call was misled.
func (l *Beliefs) Left(shard uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.at(shard)
	b.raft, b.answered = "", cmp.Or(b.raft, b.answered)
	l.settle(b)
}

func (b *belief) dropHint() {
	b.doubted, b.hint = b.hint, hint{}
	b.doubted.at = time.Now()
}

// settle chooses the leader to believe in now, and reports whether it has changed.
func (b *belief) settle() (changed bool) {
	before := b.leader
	b.leader = cmp.Or(b.raft, b.hint.leader, b.answered)
	return b.leader != before
}

// settle wakes the watchers of b if the believed leader has changed. The caller holds the lock.
func (l *Beliefs) settle(b *belief) {
	if b.settle() {
		l.tell(b)
	}
}

func (l *Beliefs) tell(b *belief) {
	close(b.changed)
	b.changed = make(chan struct{})
	l.news.Add(1)
}

// at returns the belief about a shard, and makes it if there is none. The caller holds the lock.
func (l *Beliefs) at(shard uint32) *belief {
	b := l.shards[shard]
	if b == nil {
		b = &belief{changed: make(chan struct{})}
		l.shards[shard] = b
	}
	return b
}

// Leader returns the believed leader; empty: none.
func (l *Beliefs) Leader(shard uint32) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at(shard).leader
}

// Watch returns Leader, and a channel that is closed at the next news.
func (l *Beliefs) Watch(shard uint32) (nodeID string, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.at(shard)
	return b.leader, b.changed
}

// News returns a number that rises with every change of a belief.
func (l *Beliefs) News() uint64 { return l.news.Load() }

// All returns every leader that this node knows from Raft, by shard. It leaves out hints from other nodes, since each
// node announces its own.
func (l *Beliefs) All() []*clusterpb.LeaderHint {
	l.mu.Lock()
	defer l.mu.Unlock()
	var hints []*clusterpb.LeaderHint
	for shard, b := range l.shards {
		if b.raft != "" {
			hints = append(hints, &clusterpb.LeaderHint{Shard: shard, Term: b.term, Leader: b.raft})
		}
	}
	slices.SortFunc(hints, func(a, b *clusterpb.LeaderHint) int { return int(a.Shard) - int(b.Shard) })
	return hints
}
