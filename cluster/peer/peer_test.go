package peer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// book is an address book that tests write to, and the network of its nodes.
type book struct {
	network Network // nil: the system's

	mu    sync.Mutex
	nodes map[string]Target
}

func (*book) IsMember(string) bool  { return true }
func (*book) IsRemoved(string) bool { return false }
func (*book) Reached(_, _ string)   {}

func (b *book) Lookup(id string) []Target {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, ok := b.nodes[id]; ok {
		return []Target{t}
	}
	return nil
}

func (b *book) set(id, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[id] = Target{Addr: addr}
}

// found is the directory of a node that finds all others at some addresses.
type found struct {
	*book
	at []Target
}

func (f found) Lookup(string) []Target { return f.at }

// only is the directory of a node whose cluster has some members.
type only struct {
	*book
	member func(name string) bool
}

func (o only) IsMember(name string) bool { return o.member(name) }

func nodeID(n int) string { return fmt.Sprintf("node%012d", n) }

const cluster = "cluster123456789"

// listen opens an endpoint until the end of the test. On the system's network its timeouts only end a test that hangs.
func listen(t testing.TB, b *book, n int, edit ...func(*Config)) *Endpoint {
	t.Helper()
	cfg := Config{NodeID: nodeID(n), BindAddr: "127.0.0.1:0", Directory: b, Network: b.network}
	if b.network == nil {
		cfg.HeaderTimeout, cfg.DialTimeout = time.Minute, time.Minute
	}
	for _, f := range edit {
		f(&cfg)
	}
	e, err := Listen(cfg)
	assert.NoError(t, err)
	b.set(cfg.NodeID, e.Addr())
	t.Cleanup(func() {
		assert.Equal(t, e.Close(), nil)
	})
	return e
}

// newBook returns the book of nodes on the system's network, whose tests judge no time.
func newBook() *book { return &book{nodes: make(map[string]Target)} }

// newBubbleBook returns the book of nodes on a network in memory. Its test runs in a bubble.
func newBubbleBook() *book { return newBookOn(memnet.New()) }

func newBookOn(n Network) *book { return &book{network: n, nodes: make(map[string]Target)} }

// dialRaw connects to an address without a word.
func (b *book) dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := b.network.Dial(t.Context(), addr)
	assert.NoError(t, err)
	return conn
}

func transport(t *testing.T, e *Endpoint, group uint32, clusterID string) *RaftTransport {
	t.Helper()
	tr, err := e.Raft(group, clusterID, hclog.NewNullLogger())
	assert.NoError(t, err)
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

// answer answers every RPC of the transport with the term.
func answer(tr raft.Transport, term uint64, done <-chan struct{}) {
	for {
		select {
		case rpc := <-tr.Consumer():
			rpc.Respond(&raft.RequestVoteResponse{Term: term, Granted: true}, nil)
		case <-done:
			return
		}
	}
}

func vote(tr *RaftTransport, n int) (uint64, error) {
	var resp raft.RequestVoteResponse
	id := nodeID(n)
	err := tr.RequestVote(raft.ServerID(id), raft.ServerAddress(id), &raft.RequestVoteRequest{Term: 1}, &resp)
	return resp.Term, err
}

func TestGroupsShareThePort(t *testing.T) {
	b := newBook()
	one, two := listen(t, b, 1), listen(t, b, 2)
	for group := range uint32(20) {
		from, to := transport(t, one, group, cluster), transport(t, two, group, cluster)
		go answer(to, uint64(100+group), t.Context().Done())
		if term, err := vote(from, 2); err != nil || term != uint64(100+group) {
			t.Fatalf("group %d: term %d, %v", group, term, err)
		}
		assert.MustEqual(t, from.LocalAddr(), raft.ServerAddress(nodeID(1)), "local address")
	}
}

func TestGRPCAndGossipShareThePort(t *testing.T) {
	b := newBook()
	one, two := listen(t, b, 1), listen(t, b, 2)
	conn, err := one.DialNode(t.Context(), nodeID(2))
	assert.NoError(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, "PRI * HTTP"); err != nil {
		t.Fatal(err)
	}
	expect(t, accept(t, two.GRPC()), "PRI * HTTP")

	stream, err := one.Gossip().DialTimeout(two.Addr(), time.Minute)
	assert.NoError(t, err)
	defer stream.Close()
	if _, err := io.WriteString(stream, "hello"); err != nil {
		t.Fatal(err)
	}
	expect(t, <-two.Gossip().StreamCh(), "hello")

	if _, err := one.Gossip().WriteTo([]byte("packet"), two.Addr()); err != nil {
		t.Fatal(err)
	}
	if p := <-two.Gossip().PacketCh(); string(p.Buf) != "packet" || p.From.String() != one.Addr() {
		t.Fatalf("%q from %s", p.Buf, p.From)
	}
}

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	conn, err := l.Accept()
	assert.NoError(t, err)
	return conn
}

func expect(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	buf := make([]byte, len(want))
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != want {
		t.Fatalf("read %q, %v; want %q", buf, err, want)
	}
}

// A node at a stale address must not answer for the node that was meant.
func TestConnectionForSomebodyElseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		one, two, three := listen(t, b, 1), listen(t, b, 2), listen(t, b, 3)
		from, to := transport(t, one, 7, cluster), transport(t, two, 7, cluster)
		other := transport(t, three, 7, "another-cluster-")
		go answer(to, 2, t.Context().Done())
		go answer(other, 3, t.Context().Done())
		_, err := vote(from, 3)
		assert.Error(t, err, "another cluster's node gave its vote")
		b.set(nodeID(3), two.Addr())
		_, err = vote(from, 3)
		assert.Error(t, err, "node 2 voted as node 3")
		expectDropped(t, two, droppedMisled, 1)
	})
}

// expectDropped checks how many connections have been dropped for a reason once every goroutine of the bubble waits.
func expectDropped(t *testing.T, e *Endpoint, reason string, want float64) {
	t.Helper()
	synctest.Wait()
	if n := testutil.ToFloat64(e.metrics.drops.WithLabelValues(reason)); n != want {
		t.Fatalf("%v connections were dropped as %s, not %v", n, reason, want)
	}
}

// The first exchange reaches a peer that returns, even at another address, although the pooled connection is dead.
func TestPooledConnectionIsDialledAgain(t *testing.T) {
	b := newBook()
	one := listen(t, b, 1)
	from := transport(t, one, 1, cluster)
	for round := range 3 {
		two := listen(t, b, 2)
		to, err := two.Raft(1, cluster, hclog.NewNullLogger())
		assert.NoError(t, err)
		go answer(to, uint64(round), t.Context().Done())
		if term, err := vote(from, 2); err != nil || term != uint64(round) {
			t.Fatalf("round %d: term %d, %v", round, term, err)
		}
		assert.NoError(t, two.Close())
		restPooled(one, 1)
	}
}

// restPooled makes every connection of the group look idle for longer than rest.
func restPooled(e *Endpoint, group uint32) {
	e.mu.Lock()
	g := e.groups[group]
	e.mu.Unlock()
	g.conns.mu.Lock()
	defer g.conns.mu.Unlock()
	for c := range g.conns.conns {
		if p, ok := c.Conn.(*pooled); ok {
			p.mu.Lock()
			p.used = p.used.Add(-time.Hour)
			p.mu.Unlock()
		}
	}
}

func TestHeartbeatsTakeNoFastPath(t *testing.T) {
	b := newBook()
	one, two := listen(t, b, 1), listen(t, b, 2)
	from, to := transport(t, one, 1, cluster), transport(t, two, 1, cluster)
	to.SetHeartbeatHandler(func(raft.RPC) { t.Error("the fast path was taken") })
	go func() {
		rpc := <-to.Consumer()
		rpc.Respond(&raft.AppendEntriesResponse{Term: 9}, nil)
	}()
	heartbeat := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte(nodeID(1))}, Term: 9}
	var resp raft.AppendEntriesResponse
	err := from.AppendEntries(raft.ServerID(nodeID(2)), raft.ServerAddress(nodeID(2)), &heartbeat, &resp)
	if err != nil || resp.Term != 9 {
		t.Fatalf("term %d, %v", resp.Term, err)
	}
}

// Two thousand silent connections are not kept beyond the bound of a hundred, and do not disturb other connections for
// long.
func TestSilentConnectionsDoNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		one := listen(t, b, 1)
		const bound, all = 100, 2000
		two := listen(t, b, 2, func(c *Config) { c.MaxSilent, c.HeaderTimeout = bound, 300*time.Millisecond })
		began := time.Now()
		var silent []net.Conn
		defer func() {
			for _, c := range silent {
				_ = c.Close()
			}
		}()
		for range all {
			silent = append(silent, b.dialRaw(t, two.Addr()))
		}
		for _, c := range silent { // the endpoint hangs up on each
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Fatal("a silent connection was answered")
			}
		}
		assert.Equal(t, time.Since(began), two.cfg.HeaderTimeout, "the last one was dropped after")
		from, to := transport(t, one, 1, cluster), transport(t, two, 1, cluster)
		go answer(to, 5, t.Context().Done())
		if term, err := vote(from, 2); err != nil || term != 5 {
			t.Fatalf("term %d, %v", term, err)
		}
		expectDropped(t, two, droppedCrowd, all-bound)
		expectDropped(t, two, droppedSilent, bound)
	})
}

func TestEachKindHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		two := listen(t, b, 2, func(c *Config) { c.MaxConns = 3 })
		transport(t, two, 1, cluster)
		header, err := groupHeader{group: 1, to: nodeID(2), cluster: cluster}.encode()
		assert.NoError(t, err)
		for i := range 4 {
			c := b.dialRaw(t, two.Addr())
			defer c.Close()
			_, err := c.Write(header)
			assert.NoError(t, err)
			if i == 3 { // the last one is one too many, whichever kind it is
				break
			}
		}
		expectDropped(t, two, droppedFull, 1)
	})
}

func TestClosedEndpointHangsUp(t *testing.T) {
	b := newBook()
	one := listen(t, b, 1)
	two := listen(t, b, 2)
	conn, err := one.DialNode(context.Background(), nodeID(2))
	assert.NoError(t, err)
	if _, err := io.WriteString(conn, "P"); err != nil {
		t.Fatal(err)
	}
	accepted := accept(t, two.GRPC())
	assert.NoError(t, two.GRPC().Close())
	if _, err := io.WriteString(accepted, "answer"); err != nil {
		t.Fatalf("after the end of the listener: %v", err)
	}
	expect(t, conn, "answer")
	assert.NoError(t, two.Close())
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("read after the end")
	}
	if _, err := two.GRPC().Accept(); err == nil {
		t.Error("accepted after the end")
	}
	if _, err := two.Raft(1, cluster, hclog.NewNullLogger()); err == nil {
		t.Error("a group opened after the end")
	}
}

func TestBindRules(t *testing.T) {
	for _, c := range []struct{ bind, advertise, want string }{
		{"0.0.0.0:0", "", "no keys"},
		{"192.0.2.1:0", "", "no keys"},
		{":0", "", "no keys"},
		{"example.com:1", "", "no keys"},
		{"127.0.0.1", "", "address to bind"},
		{"127.0.0.1:0", "nonsense", "not host:port"},
		{"127.0.0.1:0", ":9", "not host:port"},
	} {
		_, err := Listen(Config{NodeID: nodeID(1), BindAddr: c.bind, AdvertiseAddr: c.advertise})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s: %v", c.bind, c.advertise, err)
		}
	}
	if _, err := Listen(Config{NodeID: nodeID(1), BindAddr: "0.0.0.0:0", Keys: &peerkeys.Keys{}}); err == nil ||
		!strings.Contains(err.Error(), "advertise") {
		t.Errorf("everywhere, and nothing to advertise: %v", err)
	}
}

func TestAdvertised(t *testing.T) {
	bound := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	for advertise, want := range map[string]string{"": "127.0.0.1:9", "host:0": "host:9", "host:80": "host:80"} {
		assert.Equal(t, (Config{AdvertiseAddr: advertise}).advertised(bound), want, "%q", advertise)
	}
}

// FuzzFirstBytes checks that the endpoint survives any bytes of a stranger, and delivers only connections that begin as
// their kind must.
func FuzzFirstBytes(f *testing.F) {
	valid, err := groupHeader{group: 1, to: nodeID(2), cluster: cluster}.encode()
	assert.NoError(f, err)
	stranger, err := groupHeader{group: 1, to: nodeID(3), cluster: cluster}.encode()
	assert.NoError(f, err)
	requests := []byte("\x03\x01\x00" + nodeID(1) + nodeID(2) + cluster)
	other := []byte("\x03\x01\x00" + nodeID(1) + nodeID(3) + cluster)
	for _, seed := range [][]byte{
		nil, {0}, {groupByte}, {gossipByte}, []byte("GET / HTTP/1.1\r\n"), []byte("PRI *"), valid, valid[:20], stranger,
		{wireByte}, requests, other, requests[:20], []byte("\x03\x01\x02" + nodeID(1) + nodeID(2) + cluster),
	} {
		f.Add(seed)
	}
	// The endpoint refuses a stream while the stranger still writes. In this case each once waited for the other to
	// read.
	f.Add(append(bytes.Clone(other), "more"...))
	b := newBook()
	e := listen(f, b, 2)
	f.Fuzz(func(t *testing.T, said []byte) {
		here, there := net.Pipe()
		go func() {
			_, _ = here.Write(said)
			_ = here.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		conn, to, reason, err := e.receive(there, "")
		assert.MustEqual(t, reason == "", conn != nil && to != nil, "%q: place %v, reason %q, %v", said, to, reason, err)
		_, messages := conn.(*Incoming)
		s, appends := to.(appender)
		if (messages || appends && s.header.To == nodeID(2)) && said[0] == wireByte {
			return
		}
		if reason == "" && said[0] != grpcByte && said[0] != gossipByte {
			t.Fatalf("%q was taken for a group's", said)
		}
	})
}
