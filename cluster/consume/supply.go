package consume

import (
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// lastPause is the longest pause before a shard without a known leader is asked again, if no news comes.
const lastPause = 500 * time.Millisecond

// supply is one shard as a pool's source of tasks.
type supply struct {
	pool  *pool
	shard uint32
	ask   *ask // nil: no demand
	ready int  // number of tasks still waiting there, as reported with the last delivery

	nextMs int64 // due time of the first of them; 0: not known

	looked uint64 // number of the pool's last question that it answered with no task

	leader calls.Search
	pause  *time.Timer // runs until the shard is asked again; nil: no pause
}

func newSupply(q *pool, shard uint32) *supply {
	p := q.consumers
	return &supply{pool: q, shard: shard, leader: calls.NewSearch(calls.SearchConfig{
		Shard: shard, Source: p.cfg.Leaders, LastPause: lastPause,
		Placement: control.Placement{Control: p.cfg.Control, Nodes: p.cfg.Nodes},
	})}
}

// want makes the demand ask for n tasks in all. It raises a demand that is less than half of n, and lowers one that is
// more than twice n.
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

// begin begins a demand at the node that seems to lead.
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

// lost handles a demand that the other node has ended.
func (s *supply) lost(why *clusterpb.CallError) {
	s.ask = nil
	s.refused(why.GetLeader())
}

// refused pauses the shard, unless another node was named as its leader.
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

// leaderIs handles news of a leader. It ends a demand at another node; tasks that were granted to the demand still
// arrive.
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

// ask is one demand at one node, until the node has answered that it ended or the stream has broken.
type ask struct {
	number   uint64
	key      key
	shard    uint32
	upstream *upstream
	supply   *supply // the supply of the demand; its ask field differs after quit
	total    uint64
	received uint64
	unsaid   int  // bytes received that the other node has not been told of
	begun    bool // its first message has been sent
	end      bool // the demand is to end
	queued   bool // in upstream.unsent
}

// message returns the present state of the demand, to be sent.
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
