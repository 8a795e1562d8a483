package consume

import (
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// How long a shard is left alone that has nobody to ask, if no news comes: at first, and at most.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// place is what a pool has to do with one shard.
type place struct {
	pool  *pool
	shard uint32
	ask   *ask // nil: nothing is asked for
	ready int  // how many more waited there, as it said when it last delivered

	looked uint64 // the pool's last question to which it said that nothing was there

	refused string      // who did not lead it, or could not be reached, when last asked
	hint    string      // who leads it, as that one said
	hinted  bool        // the last one asked was such a hint
	tries   int         // in a row that came to nothing
	pause   *time.Timer // until then it is left alone; nil: it is not
}

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

// begin asks whoever seems to lead.
func (at *place) begin(n int) {
	node := at.target()
	if node == "" {
		at.rest()
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

// target is the node to ask now; empty: there is none.
func (at *place) target() string {
	p := at.pool.puller
	at.hinted = at.hint != ""
	if at.hinted {
		node := at.hint
		at.hint = ""
		return node
	}
	if leader, _ := p.cfg.Leaders.Watch(at.shard); leader != "" && leader != at.refused {
		return leader
	}
	replicas := control.Shard(p.cfg.State(), at.shard).GetReplicas()
	node := ""
	for i := range replicas {
		id := replicas[(at.tries+i)%len(replicas)]
		switch {
		case id == at.refused && node == "":
			node = id // if there is no other
		case id != at.refused && p.cfg.Alive(id):
			return id
		}
	}
	return node
}

// lost is called when the demand has ended without being asked to. The next one goes out at once if it is known where
// to, else after a while, or at news.
func (at *place) lost(why *clusterpb.CallError) {
	at.refused = at.ask.link.node
	at.ask = nil
	at.pool.puller.cfg.Leaders.Doubt(at.shard, at.refused)
	if leader := why.GetLeader(); leader != "" && leader != at.refused && !at.hinted {
		at.hint = leader
		return
	}
	at.rest()
}

// rest leaves the shard alone for a while.
func (at *place) rest() {
	q := at.pool
	if at.pause != nil {
		return
	}
	at.tries++
	at.pause = time.AfterFunc(min(firstPause<<min(at.tries-1, 10), lastPause), func() {
		q.puller.mu.Lock()
		defer q.puller.mu.Unlock()
		if at.pause != nil {
			at.pause = nil
			q.adjust()
		}
	})
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
	at.tries, at.refused, at.hint, at.hinted = 0, "", "", false
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
