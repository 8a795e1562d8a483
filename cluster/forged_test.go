package cluster_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/cluster/internal/gossip/gossiptest"
	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// victim is the forger's knowledge of a node.
type victim struct {
	id, addr string
	boot     atomic.Uint64
}

// attack sends forged gossip to nodes until the context ends.
type attack struct {
	forger  *gossiptest.Forger
	cluster string
	victims []*victim
	shards  int
}

func newAttack(t *testing.T, c *clustertest.Cluster, nodes int) *attack {
	t.Helper()
	_, conn, err := c.Network().Listen("127.0.0.1:0")
	assert.NoError(t, err)
	a := &attack{
		forger: gossiptest.Over(conn), cluster: c.Node(0).ClusterID(), shards: len(c.Node(0).View(t.Context()).Shards),
	}
	for i := range nodes {
		v := &victim{id: c.Node(i).ID(), addr: c.Node(i).PeerAddr()}
		v.boot.Store(1)
		a.victims = append(a.victims, v)
	}
	return a
}

// begin runs the attack until the test ends or stop is called.
func (a *attack) begin(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		pace := time.NewTicker(25 * time.Millisecond)
		defer pace.Stop()
		for i := uint64(0); ctx.Err() == nil; i++ {
			a.round(t, i)
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait(); _ = a.forger.Close() }) // no call waits for the forger
	t.Cleanup(stop)
	return stop
}

// round sends every victim lies about all others, and about members that do not exist: 300 a second.
func (a *attack) round(t *testing.T, i uint64) {
	nowhere := fmt.Sprintf("127.0.0.1:%d", 1+i%1000)
	fakes := membership.NewID()
	for _, v := range a.victims {
		a.forger.Junk(v.addr)
		hints := &clusterpb.LeaderHints{ClusterId: a.cluster}
		for s := range a.shards {
			liar := a.victims[(int(i)+s)%len(a.victims)].id
			hints.Hints = append(hints.Hints, &clusterpb.LeaderHint{Shard: uint32(s) + 1, Term: 1<<62 + i, Leader: liar})
		}
		errs := []error{a.forger.Hints(v.addr, hints)}
		for k := range 8 {
			errs = append(errs, a.forger.Alive(v.addr, 1, a.meta(fmt.Sprintf("%s%d", fakes[:15], k), i, nowhere)))
		}
		for _, other := range a.victims {
			start := gossiptest.Start(other.id, other.boot.Load())
			a.forger.Suspect(v.addr, gossiptest.MaxIncarnation, start, "x.1")
			a.forger.Dead(v.addr, gossiptest.MaxIncarnation, start, "x.1")
			errs = append(errs, a.forger.Alive(v.addr, gossiptest.MaxIncarnation, a.meta(other.id, 1000+i, nowhere)))
		}
		assert.Equal(t, errors.Join(errs...), nil)
	}
}

func (a *attack) meta(id string, boot uint64, addr string) *clusterpb.GossipMeta {
	return &clusterpb.GossipMeta{Id: id, Boot: boot, ClusterId: a.cluster, Name: rand.Text()[:5], PeerAddr: addr}
}

// mustServe makes calls with a delay through every node in turn and reads the tasks back, for the duration long. All
// nodes must be ready all the time.
func mustServe(t *testing.T, c *clustertest.Cluster, nodes int, long time.Duration) {
	t.Helper()
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	ends := time.Now().Add(long)
	for i := 0; time.Now().Before(ends); i++ {
		<-pace.C
		n := c.Node(i % nodes)
		if _, sure := n.Now(); !sure {
			t.Fatalf("node %d would refuse a delay: its clock has not been compared", i%nodes)
		}
		if err := n.Ready(); err != nil {
			t.Fatalf("node %d is not ready: %v", i%nodes, err)
		}
		id := fmt.Sprint("forged-", i)
		mustDo(t, n, schedule(id, time.Hour))
		task, err := n.Get(t.Context(), "", id, false)
		if err != nil || task.GetState() != fsmpb.State_STATE_SCHEDULED {
			t.Fatalf("%s through node %d: %v, %v", id, i%nodes, task, err)
		}
	}
}

// checkOffsets checks that a node has asked exactly its cluster's nodes for the time.
func checkOffsets(t *testing.T, c *clustertest.Cluster, node, others int) {
	t.Helper()
	families, err := c.Registry(node).Gather()
	assert.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "belfry_clock_offset_seconds" && len(f.Metric) != others {
			t.Errorf("node %d knows the time of %d others", node, len(f.Metric))
		}
	}
}

// Forged gossip changes nothing for callers: neither during the attack nor afterwards, and neither for a node that
// starts meanwhile nor for one that holds no replica.
func TestForgedGossip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		joiner := c.Add()
		c.Start(joiner)
		c.WaitReady()
		a := newAttack(t, c, 4)
		stop := a.begin(t)
		mustServe(t, c, 4, 5*time.Second)
		for _, i := range []int{0, joiner} {
			c.Stop(i)
			c.Start(i)
			a.victims[i].boot.Add(1)
			c.WaitReady()
		}
		mustServe(t, c, 4, 2*time.Second)
		for i := range 4 {
			checkOffsets(t, c, i, 3)
		}
		stop()
		mustServe(t, c, 4, 2*time.Second)
		c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(t.Context())) })
		c.Until("all nodes believe in the same map", func() error { return sameMap(c, 4) })
	})
}

// relay stands in front of a node's peer port. While it is mute, it carries no gossip.
type relay struct {
	network *memnet.Network
	tcp     net.Listener
	udp     net.PacketConn
	to      string
	mute    atomic.Bool
}

func newRelay(t *testing.T, network *memnet.Network) *relay {
	t.Helper()
	r := &relay{network: network, to: network.Addr()}
	var err error
	r.tcp, r.udp, err = network.Listen("127.0.0.1:0")
	assert.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() { r.accept(&running) })
	running.Go(r.forward)
	t.Cleanup(func() {
		_, _ = r.tcp.Close(), r.udp.Close() // no write is pending
		running.Wait()
	})
	return r
}

func (r *relay) accept(running *sync.WaitGroup) {
	for {
		conn, err := r.tcp.Accept()
		if err != nil {
			return
		}
		running.Go(func() { r.carry(conn) })
	}
}

// carry reads the first byte of a connection, which distinguishes gossip from all other traffic.
func (r *relay) carry(conn net.Conn) {
	defer conn.Close()
	const gossipByte = 2
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil || first[0] == gossipByte && r.mute.Load() {
		return
	}
	node, err := r.network.Dial(context.Background(), r.to)
	if err != nil {
		return
	}
	defer node.Close()
	if _, err := node.Write(first[:]); err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(conn, node) // ends when either side closes
		_ = conn.Close()
	}()
	_, _ = io.Copy(node, conn) // ends likewise
	_ = node.Close()
	<-ended
}

func (r *relay) forward() {
	buf := make([]byte, 64<<10)
	for {
		n, _, err := r.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		if to, err := net.ResolveUDPAddr("udp", r.to); err == nil && !r.mute.Load() {
			_, _ = r.udp.WriteTo(buf[:n], to) // packets may be lost
		}
	}
}

// Without any gossip, over UDP or TCP, all calls go on, also through nodes that start and during an election.
func TestSilentGossip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		relays := []*relay{newRelay(t, network), newRelay(t, network), newRelay(t, network)}
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			cfg.Network = network
			cfg.BindAddr, cfg.AdvertiseAddr = relays[i].to, relays[i].tcp.Addr().String()
			cfg.Join = nil
			for j, r := range relays {
				if j != i {
					cfg.Join = append(cfg.Join, r.tcp.Addr().String())
				}
			}
		})
		mustServe(t, c, 3, time.Second)
		for _, r := range relays {
			r.mute.Store(true)
		}
		for i := range 3 {
			c.Crash(i)
			c.Start(i)
			c.WaitReady()
			mustServe(t, c, 3, 2*time.Second)
		}
		for i := range 3 {
			c.Crash(i)
		}
		for i := range 3 {
			c.Start(i)
		}
		c.WaitReady()
		mustServe(t, c, 3, time.Second)
		c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(t.Context())) })
		for _, r := range relays {
			r.mute.Store(false)
		}
		mustServe(t, c, 3, time.Second)
	})
}
