package gossip

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// table holds the beliefs of a test's node about leaders.
type table struct {
	mu    sync.Mutex
	terms map[uint32]uint64
	news  chan struct{}
}

func newTable() *table { return &table{terms: make(map[uint32]uint64), news: make(chan struct{}, 100)} }

func (t *table) Take(h *clusterpb.LeaderHint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.Term <= t.terms[h.Shard] {
		return false
	}
	t.terms[h.Shard] = h.Term
	t.news <- struct{}{}
	return true
}

func (t *table) All() []*clusterpb.LeaderHint {
	t.mu.Lock()
	defer t.mu.Unlock()
	var hints []*clusterpb.LeaderHint
	for shard, term := range t.terms {
		hints = append(hints, &clusterpb.LeaderHint{Shard: shard, Term: term, Leader: "x"})
	}
	return hints
}

// deaf takes no hint, and has none.
type deaf struct{}

func (deaf) All() []*clusterpb.LeaderHint    { return nil }
func (deaf) Take(*clusterpb.LeaderHint) bool { return false }

// seeds is the directory of a node that knows addresses, and no members.
type seeds []string

func (s seeds) JoinAddrs() []string              { return s }
func (seeds) IsKnown(string) (member, sure bool) { return false, false }

type node struct {
	*Gossip
	*table
	addr string
	stop func()
}

const clusterID = "cluster123456789"

// mesh is the network of one test's nodes, in the test's bubble.
type mesh struct {
	t       *testing.T
	network *memnet.Network
}

func newMesh(t *testing.T) mesh {
	t.Helper()
	t.Cleanup(func() { <-time.After(time.Minute) }) // goroutines of memberlist outlive their node by an answer's limit
	return mesh{t, memnet.New()}
}

func (m mesh) start(id string, boot uint64, cluster string, join ...string) *node {
	m.t.Helper()
	return m.startWith(id, boot, cluster, func(*Config) {}, join...)
}

func (m mesh) startWith(id string, boot uint64, cluster string, edit func(*Config), join ...string) *node {
	m.t.Helper()
	e, err := peer.Listen(peer.Config{
		NodeID: fmt.Sprintf("%016s", id), BindAddr: "127.0.0.1:0", Network: m.network,
	})
	assert.NoError(m.t, err)
	n := &node{table: newTable(), addr: e.Addr()}
	cfg := Config{
		Self:      &clusterpb.GossipMeta{Id: id, Boot: boot, ClusterId: cluster, PeerAddr: e.Addr(), Name: "n" + id},
		Transport: e.Gossip(), Keys: [][]byte{make([]byte, 32)}, Directory: seeds(join),
		Leaders: n.table,
	}
	edit(&cfg)
	n.Gossip, err = Start(cfg)
	assert.NoError(m.t, err)
	n.stop = sync.OnceFunc(func() {
		_ = n.Close() // leaving may fail when no other node is left
		assert.Equal(m.t, e.Close(), nil)
	})
	m.t.Cleanup(n.stop)
	return n
}

// sees waits until the node sees these members, each as "id.boot".
func (n *node) sees(t *testing.T, want ...string) {
	t.Helper()
	n.seesWithin(t, 15*time.Second, want...)
}

func (n *node) seesWithin(t *testing.T, patience time.Duration, want ...string) {
	t.Helper()
	timeout := time.After(patience)
	for {
		members, changed := n.Watch()
		var seen []string
		for _, m := range members {
			seen = append(seen, fmt.Sprintf("%s.%d", m.Id, m.Boot))
		}
		if strings.Join(seen, " ") == strings.Join(want, " ") {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("sees %v, not %v", seen, want)
		}
	}
}

func TestNodesFindEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		a := m.start("a", 1, clusterID)
		b := m.start("b", 1, clusterID, a.addr)
		c := m.start("c", 1, clusterID, b.addr)
		for _, n := range []*node{a, b, c} {
			n.sees(t, "a.1", "b.1", "c.1")
		}
		if s := c.Starts("a"); len(s) != 1 || s[0].PeerAddr != a.addr || s[0].Name != "na" {
			t.Fatalf("c sees a as %v", s)
		}
		c.stop()
		a.sees(t, "a.1", "b.1")
	})
}

// A node that comes back at another address is seen there at once, although its absence was never noticed.
func TestNodeComesBackElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		a := m.start("a", 1, clusterID)
		b := m.start("b", 1, clusterID, a.addr)
		a.sees(t, "a.1", "b.1")
		again := m.start("b", 2, clusterID, a.addr)
		a.sees(t, "a.1", "b.2")
		if s := a.Starts("b"); s[0].PeerAddr != again.addr {
			t.Fatalf("b is at %v, not %s first", s, again.addr)
		}
		b.stop()
		a.sees(t, "a.1", "b.2")
	})
}

func TestOtherClustersAreNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		a := m.start("a", 1, clusterID)
		b := m.start("b", 1, "another-cluster-", a.addr)
		c := m.start("c", 1, "", a.addr)
		a.sees(t, "a.1", "c.1")
		b.sees(t, "b.1", "c.1")
		c.sees(t, "a.1", "b.1", "c.1")
		assert.NoError(t, c.EnterCluster(clusterID))
		c.sees(t, "a.1", "c.1")
		b.sees(t, "b.1")
		b.Announce(&clusterpb.LeaderHint{Shard: 1, Term: 9})
		a.Announce(&clusterpb.LeaderHint{Shard: 2, Term: 1})
		<-c.news
		if got := c.All(); len(got) != 1 || got[0].Shard != 2 {
			t.Fatalf("c believes %v", got)
		}
	})
}

// A start publishes that it enters its cluster, and that it takes part, after others have heard of it.
func TestStartTellsWhatBecomesOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		a := m.start("a", 1, "")
		b := m.start("b", 1, "", a.addr)
		a.sees(t, "a.1", "b.1")
		assert.NoError(t, errors.Join(b.EnterCluster(clusterID), b.TakePart()))
		timeout := time.After(15 * time.Second)
		for {
			_, changed := a.Watch()
			s := a.Starts("b")[0]
			if s.TakesPart && s.ClusterId == clusterID {
				return
			}
			select {
			case <-changed:
			case <-timeout:
				t.Fatalf("b is still %v", s)
			}
		}
	})
}

func TestLeadersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		a := m.start("a", 1, clusterID)
		a.Take(&clusterpb.LeaderHint{Shard: 1, Term: 4})
		b := m.start("b", 1, clusterID, a.addr)
		<-b.news // with the whole state
		b.sees(t, "a.1", "b.1")
		a.sees(t, "a.1", "b.1")
		b.Announce(&clusterpb.LeaderHint{Shard: 2, Term: 7})
		<-a.news
		<-a.news
		if a.terms[2] != 7 {
			t.Fatalf("a believes %v", a.All())
		}
	})
}

func TestTooLongToSay(t *testing.T) {
	_, err := Start(Config{Self: &clusterpb.GossipMeta{Id: "a", HttpAddr: strings.Repeat("x", 600)}})
	if err == nil {
		t.Fatal("600 bytes fit into 512")
	}
}
