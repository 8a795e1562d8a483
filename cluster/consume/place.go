package consume

import (
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/leaders"
)

// lastPause is how long a shard without a node to ask is left alone at most, if no news comes.
const lastPause = 500 * time.Millisecond

// place is what a pool has to do with one shard.
type place struct {
	pool  *pool
	shard uint32
	ask   *ask // nil: nothing is asked for
	ready int  // how many more waited there, as it said when it last delivered

	looked uint64 // the pool's last question to which it said that nothing was there

	leader leaders.Search
	pause  *time.Timer // runs while the shard is left alone; nil: it is not
}

func newPlace(q *pool, shard uint32) *place {
	p := q.puller
	return &place{pool: q, shard: shard, leader: leaders.NewSearch(leaders.SearchConfig{
		Shard: shard, Source: p.cfg.Leaders, Placement: p.placement, Alive: p.cfg.Alive, LastPause: lastPause,
	})}
}

func (p *Puller) placement(shard uint32) *clusterpb.Shard { return control.Shard(p.cfg.State(), shard) }

// want asks for n tasks in all. A demand is raised once it is half used up, and lowered when it is twice too much.
func (at *place) want(n int) {
	if at.ask == nil {
		if n > 0 && at.pause == nil {
			at.begin(n)
		}
		return
	}
	a := at.ask
	open := int(a.total - a.received)
	if raise := open < (n+1)/2; raise || open > 2*n {
		a.total = a.received + uint64(n)
		a.link.send(a)
	}
}

// begin asks the node that seems to lead.
func (at *place) begin(n int) {
	node := at.leader.Next()
	if node == "" {
		at.refused("")
		return
	}
	p := at.pool.puller
	p.number++
	l := p.link(node)
	at.ask = &ask{number: p.number, key: at.pool.key, shard: at.shard, link: l, total: uint64(n), place: at}
	l.asks[at.ask.number] = at.ask
	p.asks++
	l.send(at.ask)
}

// lost is called when the demand has ended without being asked to.
func (at *place) lost(why *clusterpb.CallError) {
	at.ask = nil
	at.refused(why.GetLeader())
}

// refused leaves the shard alone for a while, unless another node was named as its leader.
func (at *place) refused(leader string) {
	if pause := at.leader.Refused(leader); pause > 0 && at.pause == nil {
		at.pause = time.AfterFunc(pause, at.resume)
	}
}

// resume ends the pause.
func (at *place) resume() {
	q := at.pool
	q.puller.mu.Lock()
	defer q.puller.mu.Unlock()
	if at.pause != nil {
		at.pause = nil
		q.adjust()
	}
}

func (at *place) wake() {
	if at.pause != nil {
		at.pause.Stop()
		at.pause = nil
	}
}

// leaderIs takes news. What was asked of another node ends there; what it has granted still comes.
func (at *place) leaderIs(leader string) {
	at.wake()
	at.leader.News()
	if at.ask != nil && leader != "" && at.ask.link.node != leader {
		at.quit()
	}
}

// quit ends the demand.
func (at *place) quit() {
	at.wake()
	if at.ask != nil {
		at.ask.end = true
		at.ask.link.send(at.ask)
		at.ask = nil
	}
}

// ask is one demand at one node, until that has said that it ended, or the link has broken.
type ask struct {
	number   uint64
	key      key
	shard    uint32
	link     *link
	place    *place // it is place.ask, unless it has been quit
	total    uint64
	received uint64
	unsaid   int  // bytes received that the other side has not been told of
	begun    bool // its first message has been sent
	end      bool // no more is asked for
	queued   bool // in link.queue
}

// message says where the demand stands.
func (a *ask) message() *clusterpb.PullDemand {
	m := &clusterpb.PullDemand{
		Number: a.number, Total: a.total, Received: a.received, End: a.end, Look: a.place.pool.look,
	}
	if !a.begun {
		m.Shard, m.Namespace, m.Queue = a.shard, a.key.namespace, a.key.queue
		m.LeaseMs, m.Holder = a.key.lease.Milliseconds(), a.link.puller.holder
	}
	a.begun, a.unsaid = true, 0
	return m
}
