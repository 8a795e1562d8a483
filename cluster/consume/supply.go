package consume

import (
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/leaders"
)

// lastPause is how long a shard without a node to ask is left alone at most, if no news comes.
const lastPause = 500 * time.Millisecond

// supply is one shard, as a pool gets tasks from it.
type supply struct {
	pool  *pool
	shard uint32
	ask   *ask // nil: nothing is asked for
	ready int  // how many more waited there, as it said when it last delivered

	looked uint64 // the pool's last question to which it said that nothing was there

	leader leaders.Search
	pause  *time.Timer // runs while the shard is left alone; nil: it is not
}

func newSupply(q *pool, shard uint32) *supply {
	p := q.consumers
	return &supply{pool: q, shard: shard, leader: leaders.NewSearch(leaders.SearchConfig{
		Shard: shard, Source: p.cfg.Leaders, Placement: p.placement, Alive: p.cfg.Alive, LastPause: lastPause,
	})}
}

func (p *Consumers) placement(shard uint32) *clusterpb.Shard {
	return control.Shard(p.cfg.State(), shard)
}

// want asks for n tasks in all. A demand is raised once it is half used up, and lowered when it is twice too much.
func (s *supply) want(n int) {
	if s.ask == nil {
		if n > 0 && s.pause == nil {
			s.begin(n)
		}
		return
	}
	a := s.ask
	open := int(a.total - a.received)
	if raise := open < (n+1)/2; raise || open > 2*n {
		a.total = a.received + uint64(n)
		a.upstream.send(a)
	}
}

// begin asks the node that seems to lead.
func (s *supply) begin(n int) {
	node := s.leader.Next()
	if node == "" {
		s.refused("")
		return
	}
	p := s.pool.consumers
	p.number++
	l := p.upstream(node)
	s.ask = &ask{number: p.number, key: s.pool.key, shard: s.shard, upstream: l, total: uint64(n), supply: s}
	l.asks[s.ask.number] = s.ask
	p.asks++
	l.send(s.ask)
}

// lost is called when the demand has ended without being asked to.
func (s *supply) lost(why *clusterpb.CallError) {
	s.ask = nil
	s.refused(why.GetLeader())
}

// refused leaves the shard alone for a while, unless another node was named as its leader.
func (s *supply) refused(leader string) {
	if pause := s.leader.Refused(leader); pause > 0 && s.pause == nil {
		s.pause = time.AfterFunc(pause, s.resume)
	}
}

// resume ends the pause.
func (s *supply) resume() {
	q := s.pool
	q.consumers.mu.Lock()
	defer q.consumers.mu.Unlock()
	if s.pause != nil {
		s.pause = nil
		q.adjust()
	}
}

func (s *supply) wake() {
	if s.pause != nil {
		s.pause.Stop()
		s.pause = nil
	}
}

// leaderIs takes news. A demand at another node ends; tasks that it has granted still come.
func (s *supply) leaderIs(leader string) {
	s.wake()
	s.leader.News()
	if s.ask != nil && leader != "" && s.ask.upstream.node != leader {
		s.quit()
	}
}

// quit ends the demand.
func (s *supply) quit() {
	s.wake()
	if s.ask != nil {
		s.ask.end = true
		s.ask.upstream.send(s.ask)
		s.ask = nil
	}
}

// ask is one demand at one node, until that has said that it ended, or the link has broken.
type ask struct {
	number   uint64
	key      key
	shard    uint32
	upstream *upstream
	supply   *supply // whose ask this is, unless it was quit
	total    uint64
	received uint64
	unsaid   int  // bytes received that the other side has not been told of
	begun    bool // its first message has been sent
	end      bool // no more is asked for
	queued   bool // in upstream.unsent
}

// message says where the demand stands.
func (a *ask) message() *clusterpb.PullDemand {
	m := &clusterpb.PullDemand{
		Number: a.number, Total: a.total, Received: a.received, End: a.end, Look: a.supply.pool.look,
	}
	if !a.begun {
		m.Shard, m.Namespace, m.Queue = a.shard, a.key.namespace, a.key.queue
		m.LeaseMs, m.Holder = a.key.lease.Milliseconds(), a.upstream.consumers.holder
	}
	a.begun, a.unsaid = true, 0
	return m
}
