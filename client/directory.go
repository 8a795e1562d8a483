package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/client/view"
)

// directory is the client's knowledge of shards and their leaders. It is optional: without it, calls go to the
// configured addresses.
type directory struct {
	c      *conn
	scheme string // of the given addresses; empty: leaders' own addresses are not used, only slots to keep shards apart
	layout atomic.Pointer[layout]
	due    atomic.Bool // a look is due
	// learning is set while a goroutine learns the map. It is set with the mutex held.
	learning atomic.Bool
	retryAt  atomic.Int64 // when an unusable address may be retried, in Unix nanoseconds; 0: never

	mu        sync.Mutex
	shards    map[uint32]*shard
	endpoints map[string]*endpoint // by base
	pause     time.Duration        // least time between two looks; longer without news
	next      time.Time            // earliest time of the next look
}

const (
	minLook      = 200 * time.Millisecond
	maxLook      = 30 * time.Second
	refusedLook  = 10 * time.Minute // after a look that the key does not allow: the nodes record each refusal
	lookTimeout  = 5 * time.Second
	probeTimeout = time.Second
	minBan       = 5 * time.Second
	maxBan       = 10 * time.Minute
)

func newDirectory(c *conn, scheme string) *directory {
	d := &directory{
		c: c, scheme: scheme, pause: minLook, shards: map[uint32]*shard{}, endpoints: map[string]*endpoint{},
	}
	for _, e := range c.nodes.given {
		d.endpoints[e.base] = e
	}
	return d
}

// route returns the lane for a task's line.
func (d *directory) route(l *line) *lane {
	known := d.layout.Load()
	if known == nil {
		if !d.learning.Load() {
			d.stale()
		}
		return d.c.nodes.first().lane
	}
	l.shard = known.shardOf(l.id)
	if aside := l.shard.aside.Load(); aside != nil {
		return aside
	}
	return d.target(l.shard).lane
}

// target returns the endpoint for calls about a shard now.
func (d *directory) target(s *shard) *endpoint {
	if e := s.leader.Load(); e != nil {
		return e
	}
	return d.c.nodes.first()
}

// leaderOf returns the endpoint for a request of its own about a task. Unlike route, it does not start to learn the
// map.
func (d *directory) leaderOf(id string) *endpoint {
	if known := d.layout.Load(); id != "" && known != nil {
		return d.target(known.shardOf(id))
	}
	return d.c.nodes.first()
}

// noteVersion takes the version of a node's map from an answer.
func (d *directory) noteVersion(version string) {
	known := d.layout.Load()
	if known == nil {
		return
	}
	retryAt := d.retryAt.Load()
	if version != "" && version != known.version || retryAt != 0 && time.Now().UnixNano() > retryAt {
		d.stale()
	}
}

// failed stops the use of an address as a leader's.
func (d *directory) failed(e *endpoint) {
	d.mu.Lock()
	if e.usable {
		d.ban(e)
	}
	d.mu.Unlock()
	if d.layout.Load() != nil { // without a layout no call has needed leaders yet
		d.stale()
	}
}

// ban marks an address as unusable for a while. The caller holds the lock.
func (d *directory) ban(e *endpoint) {
	e.usable = false
	e.retryAt = time.Now().Add(min(minBan<<min(e.failures, 10), maxBan))
	e.failures++
	for _, s := range d.shards {
		s.leader.CompareAndSwap(e, nil)
	}
}

// stale makes the client learn the map again, soon and in the background.
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

// learn looks as long as a look is due, with pauses.
func (d *directory) learn() {
	defer d.c.end()
	for more := true; more; {
		d.mu.Lock()
		pause := time.Until(d.next)
		d.mu.Unlock()
		if wait(d.c.ctx, pause) != nil {
			return // the client is being closed
		}
		d.due.Store(false)
		news, err := d.look()
		d.mu.Lock()
		switch {
		case news:
			d.pause = minLook
		case errors.Is(err, ErrForbidden):
			d.pause = refusedLook
		default:
			d.pause = min(2*d.pause, maxLook)
		}
		d.next = time.Now().Add(d.pause)
		more = d.due.Load()
		d.learning.Store(more)
		d.mu.Unlock()
	}
}

// look reads the map from a node, and reports whether it contained news. Callers find out about most errors by
// themselves, and ask again.
func (d *directory) look() (news bool, err error) {
	ctx, cancel := context.WithTimeout(d.c.ctx, lookTimeout)
	defer cancel()
	m := new(view.Map)
	if err := d.c.do(ctx, call{method: http.MethodGet, path: "/v1/map"}, readJSON(m)); err != nil {
		return false, err
	}
	if own := d.c.cfg.Namespace; own != "" {
		m.Namespace = own
	}
	d.mu.Lock()
	known := newLayout(m, d.shards)
	d.mu.Unlock()
	if known == nil {
		return false, nil
	}
	leaders := d.find(ctx, m)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retryAt.Store(d.nextTry())
	for _, v := range m.Shards {
		e := leaders[v.Leader]
		if e != nil && !e.usable {
			e = nil // another node's, or failed meanwhile
		}
		if s := d.shards[v.ID]; s.leader.Load() != e {
			s.leader.Store(e)
			news = true
		}
	}
	before := d.layout.Swap(known)
	return news || before == nil || before.version != known.version, nil
}

// nextTry returns when the first unusable address may be retried, or 0 if all are usable. The caller holds the lock.
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

// find returns the addresses of the leading nodes, by the nodes' ids. It has probed those that were not usable.
func (d *directory) find(ctx context.Context, m *view.Map) map[string]*endpoint {
	found := map[string]*endpoint{}
	if d.scheme == "" {
		return found
	}
	var probes sync.WaitGroup
	for _, s := range m.Shards {
		if found[s.Leader] != nil {
			continue
		}
		e, usable := d.endpointOf(urlOf(m, s.Leader))
		if e == nil {
			continue
		}
		found[s.Leader] = e
		if !usable {
			probes.Go(func() { d.admit(ctx, e, m.ClusterID, s.Leader) })
		}
	}
	probes.Wait()
	return found
}

// endpointOf returns the address that a node announces, or nil if it may not be tried now.
func (d *directory) endpointOf(announced string) (e *endpoint, usable bool) {
	base := d.baseOf(announced)
	if base == "" {
		return nil, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
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

// baseOf returns the base of an announced URL, or "" if it cannot be used. A client of https:// addresses uses no
// http:// address, which would show its key to the network.
func (d *directory) baseOf(announced string) string {
	u, err := url.Parse(announced)
	if err != nil || u.User != nil || strings.Trim(u.Path, "/") != "" || !reachable(u) {
		return ""
	}
	if u.Scheme != "https" && (u.Scheme != "http" || d.scheme != "http") {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// reachable reports whether a URL's host can be connected to. The unspecified address and port 0 cannot.
func reachable(u *url.URL) bool {
	if u.Hostname() == "" || u.Port() == "0" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsUnspecified()
}

// admit asks an address whether it is that node of that cluster. It bans an address that is not, longer each time.
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
	// The key stays here, since the address is not known to be a node's.
	ready := call{method: http.MethodGet, path: "/readyz", open: true}
	if err := d.c.send(ctx, e.base, ready, readJSON(&self)); err != nil {
		return err
	}
	if self.Cluster != cluster || self.Node != node {
		return errSomebodyElse
	}
	return nil
}

// endpoint is an address for calls: a configured one, or a learned one of a leader.
type endpoint struct {
	base string
	lane *lane

	// The directory's mutex guards the next three fields.
	usable   bool      // as a leader's: configured or probed, and has not failed since
	failures int       // consecutive failures
	retryAt  time.Time // when an unusable address may be probed again
}

func (c *conn) newEndpoint(base string, given bool) *endpoint {
	e := &endpoint{base: base, usable: given}
	e.lane = &lane{c: c, to: e}
	return e
}

// nodes holds the configured addresses. The last one that answered is used first; after a failure the next one is used.
type nodes struct {
	given []*endpoint
	at    atomic.Uint32
}

// first returns the node for a call that knows no better one.
func (n *nodes) first() *endpoint { return n.given[int(n.at.Load())%len(n.given)] }

// after takes the failure of a node and returns the next one. Calls that fail together move the choice only once.
func (n *nodes) after(e *endpoint) *endpoint {
	if at := n.at.Load(); n.given[int(at)%len(n.given)] == e {
		n.at.CompareAndSwap(at, at+1)
	}
	return n.first()
}
