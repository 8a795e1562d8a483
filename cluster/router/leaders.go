package router

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Leaders is what this node believes about who leads. Later terms win; in one term, a name wins over none.
type Leaders struct {
	news atomic.Uint64 // how often a belief has changed

	mu     sync.Mutex
	shards map[uint32]*belief
}

type belief struct {
	term    uint64
	leader  string        // empty: that term has none yet, as far as is known
	changed chan struct{} // closed when this is no longer the belief
}

// NewLeaders begins with no belief at all.
func NewLeaders() *Leaders { return &Leaders{shards: make(map[uint32]*belief)} }

// Note takes a hint, and tells whether it was news.
func (l *Leaders) Note(shard uint32, term uint64, leader string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.at(shard)
	if term < b.term || term == b.term && (leader == b.leader || leader == "") {
		return false
	}
	close(b.changed)
	l.shards[shard] = &belief{term: term, leader: leader, changed: make(chan struct{})}
	l.news.Add(1)
	return true
}

// at is called with the lock held.
func (l *Leaders) at(shard uint32) *belief {
	b := l.shards[shard]
	if b == nil {
		b = &belief{changed: make(chan struct{})}
		l.shards[shard] = b
	}
	return b
}

// Leader is who is believed to lead; empty: nobody.
func (l *Leaders) Leader(shard uint32) (nodeID string, term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.at(shard)
	return b.leader, b.term
}

// Watch is Leader, and a channel that is closed at the next news.
func (l *Leaders) Watch(shard uint32) (nodeID string, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.at(shard)
	return b.leader, b.changed
}

// News is another number whenever a belief is another one.
func (l *Leaders) News() uint64 { return l.news.Load() }

// All is every belief in somebody, by shard.
func (l *Leaders) All() []*clusterpb.LeaderHint {
	l.mu.Lock()
	defer l.mu.Unlock()
	var hints []*clusterpb.LeaderHint
	for shard, b := range l.shards {
		if b.leader != "" {
			hints = append(hints, &clusterpb.LeaderHint{Shard: shard, Term: b.term, Leader: b.leader})
		}
	}
	slices.SortFunc(hints, func(a, b *clusterpb.LeaderHint) int { return int(a.Shard) - int(b.Shard) })
	return hints
}
