package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// directory is what the client knows about shards and their leaders. It is never needed: where it knows nothing, calls
// go to the configured addresses.
type directory struct {
	c       *Client
	leaders bool // leaders' own addresses are used; else only the slots are, to keep shards apart
	layout  atomic.Pointer[layout]
	due     atomic.Bool // a look is due
	// learning: somebody sees to what is due. Set with the mutex held.
	learning atomic.Bool
	retryAt  atomic.Int64 // when an address that is not usable may be tried again, in Unix nanoseconds; 0: never

	mu        sync.Mutex
	shards    map[uint32]*shard
	endpoints map[string]*endpoint // by base
	pause     time.Duration        // the least time between two looks; longer while nothing new is seen
	next      time.Time            // when the next look may be
}

const (
	minLook      = 200 * time.Millisecond
	maxLook      = 30 * time.Second
	lookTimeout  = 5 * time.Second
	probeTimeout = time.Second
	minBan       = 5 * time.Second
	maxBan       = 10 * time.Minute
)

func newDirectory(c *Client, leaders bool) *directory {
	d := &directory{
		c: c, leaders: leaders, pause: minLook, shards: map[uint32]*shard{}, endpoints: map[string]*endpoint{},
	}
	for _, e := range c.nodes.given {
		d.endpoints[e.base] = e
	}
	return d
}

// route says which lane a task's line is to take.
func (d *directory) route(l *line) *lane {
	known := d.layout.Load()
	if known == nil {
		if !d.learning.Load() {
			d.stale()
		}
		return d.c.nodes.first().lane
	}
	l.shard = known.shards[slotOf(l.id)]
	if aside := l.shard.aside.Load(); aside != nil {
		return aside
	}
	return d.target(l.shard).lane
}

// target is whom to ask about a shard now.
func (d *directory) target(s *shard) *endpoint {
	if e := s.leader.Load(); e != nil {
		return e
	}
	return d.c.nodes.first()
}

// leaderOf is whom to ask about a task with a request of its own. It learns nothing for that.
func (d *directory) leaderOf(id string) *endpoint {
	if known := d.layout.Load(); id != "" && known != nil {
		return d.target(known.shards[slotOf(id)])
	}
	return d.c.nodes.first()
}

// heard takes the version of the map that a node believes in.
func (d *directory) heard(version string) {
	known := d.layout.Load()
	if known == nil {
		return
	}
	retryAt := d.retryAt.Load()
	if version != "" && version != known.version || retryAt != 0 && time.Now().UnixNano() > retryAt {
		d.stale()
	}
}

// failed takes an address out of use as a leader's.
func (d *directory) failed(e *endpoint) {
	d.mu.Lock()
	if e.usable {
		d.ban(e)
	}
	d.mu.Unlock()
	if d.layout.Load() != nil { // else nobody has asked for any yet
		d.stale()
	}
}

// ban is called with the lock held.
func (d *directory) ban(e *endpoint) {
	e.usable = false
	e.retryAt = time.Now().Add(min(minBan<<min(e.failures, 10), maxBan))
	e.failures++
	for _, s := range d.shards {
		s.leader.CompareAndSwap(e, nil)
	}
}

// stale has the map learned anew, soon and in the background.
func (d *directory) stale() {
	if d.due.Swap(true) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.learning.Load() && d.c.begin() {
		d.learning.Store(true)
		go d.learn()
	}
}

// learn looks as long as it is due, with pauses.
func (d *directory) learn() {
	defer d.c.end()
	for more := true; more; {
		d.mu.Lock()
		pause := time.Until(d.next)
		d.mu.Unlock()
		if wait(d.c.ctx, pause) != nil {
			return // it is being closed
		}
		d.due.Store(false)
		news := d.look()
		d.mu.Lock()
		d.pause = min(2*d.pause, maxLook)
		if news {
			d.pause = minLook
		}
		d.next = time.Now().Add(d.pause)
		more = d.due.Load()
		d.learning.Store(more)
		d.mu.Unlock()
	}
}

// look asks a node for the map, and tells whether it was news.
func (d *directory) look() (news bool) {
	ctx, cancel := context.WithTimeout(d.c.ctx, lookTimeout)
	defer cancel()
	view, err := d.c.Cluster(ctx)
	if err != nil {
		return false // whoever needs it sees for himself that nobody answers, and asks again
	}
	d.mu.Lock()
	known := newLayout(view, d.shards)
	d.mu.Unlock()
	if known == nil {
		return false
	}
	leaders := d.find(ctx, view)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retryAt.Store(d.nextTry())
	for _, v := range view.Shards {
		e := leaders[v.Leader]
		if e != nil && !e.usable {
			e = nil // it is not the one, or failed meanwhile
		}
		if s := d.shards[v.ID]; s.leader.Load() != e {
			s.leader.Store(e)
			news = true
		}
	}
	before := d.layout.Swap(known)
	return news || before == nil || before.version != known.version
}

// nextTry is when the first of the addresses that are not usable may be tried again; 0: there is none. It is called
// with the lock held.
func (d *directory) nextTry() int64 {
	var next time.Time
	for _, e := range d.endpoints {
		if !e.usable && (next.IsZero() || e.retryAt.Before(next)) {
			next = e.retryAt
		}
	}
	if next.IsZero() {
		return 0
	}
	return next.UnixNano()
}

// find returns the addresses of the nodes that lead, by the nodes' ids. Those that were not usable have been asked.
func (d *directory) find(ctx context.Context, view *Cluster) map[string]*endpoint {
	found := map[string]*endpoint{}
	if !d.leaders {
		return found
	}
	var probes sync.WaitGroup
	for _, s := range view.Shards {
		if found[s.Leader] != nil {
			continue
		}
		e, usable := d.endpointOf(view.Node(s.Leader))
		if e == nil {
			continue
		}
		found[s.Leader] = e
		if !usable {
			probes.Go(func() { d.admit(ctx, e, view.ID, s.Leader) })
		}
	}
	probes.Wait()
	return found
}

// endpointOf is a node's address; nil if it has none that may be tried now.
func (d *directory) endpointOf(n *Node) (e *endpoint, usable bool) {
	if n == nil || !n.Alive || !reachable(n.HTTPAddr) {
		return nil, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	base := "http://" + n.HTTPAddr
	e = d.endpoints[base]
	if e == nil {
		e = d.c.newEndpoint(base, false)
		d.endpoints[base] = e
	}
	if !e.usable && time.Now().Before(e.retryAt) {
		return nil, false
	}
	return e, e.usable
}

// reachable: the address could be one. That of all interfaces, or port 0, is none.
func reachable(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "0" {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsUnspecified()
}

// admit asks an address whether it is that node of that cluster. One that is not is left alone for a while, and longer
// each time.
func (d *directory) admit(ctx context.Context, e *endpoint, cluster, node string) {
	err := d.probe(ctx, e, cluster, node)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.ban(e)
		return
	}
	e.usable, e.failures = true, 0
}

var errSomebodyElse = errors.New("another node answers there")

func (d *directory) probe(ctx context.Context, e *endpoint, cluster, node string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var self struct {
		Cluster string `json:"cluster_id"`
		Node    string `json:"node"`
	}
	if err := d.c.send(ctx, e.base, call{method: http.MethodGet, path: "/readyz"}, readJSON(&self)); err != nil {
		return err
	}
	if self.Cluster != cluster || self.Node != node {
		return errSomebodyElse
	}
	return nil
}
