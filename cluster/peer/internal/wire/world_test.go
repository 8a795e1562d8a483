package wire

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

const (
	testCluster = "cluster123456789"
	testByte    = 0x03
)

func nodeID(n int) string { return fmt.Sprintf("node%012d", n) }

// patience is how long a test waits for an event, in the time of its bubble. It is longer than any timeout of a node,
// except where a test sets an hour.
const patience = time.Minute

// world is a set of nodes in a test's bubble that know each other's addresses.
type world struct {
	t       testing.TB
	network *memnet.Network
	timeout time.Duration
	dials   atomic.Int64

	mu    sync.Mutex
	addrs map[string]string
}

func newWorld(t testing.TB) *world {
	return &world{t: t, network: memnet.New(), timeout: 10 * time.Second, addrs: make(map[string]string)}
}

func (*world) Saw(string, uint32, uint64, uint64, uint64) {}

func (w *world) DialNode(ctx context.Context, id string) (net.Conn, error) {
	w.dials.Add(1)
	w.mu.Lock()
	addr, ok := w.addrs[id]
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("no address of %s", id)
	}
	return w.network.Dial(ctx, addr)
}

// listen makes serve handle the connections to a node's address.
func (w *world) listen(n int, serve func(net.Conn)) (stop func()) {
	w.t.Helper()
	l, _, err := w.network.Listen("127.0.0.1:0")
	assert.NoError(w.t, err)
	w.mu.Lock()
	w.addrs[nodeID(n)] = l.Addr().String()
	w.mu.Unlock()
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { serve(conn) })
		}
	})
	stop = sync.OnceFunc(func() {
		_ = l.Close()
		conns.Wait()
	})
	w.t.Cleanup(stop)
	return stop
}

// node is a mux with a listener.
type node struct {
	*Mux
	w    *world
	id   string
	stop func()
}

func (w *world) node(n int) *node {
	w.t.Helper()
	m := New(Config{
		Self: nodeID(n), FirstByte: testByte, Nodes: w, Records: w, Timeout: w.timeout, Logger: slog.New(slog.DiscardHandler),
	})
	closeListener := w.listen(n, func(conn net.Conn) {
		var first [1]byte
		_, err := io.ReadFull(conn, first[:])
		var h Header
		if err == nil {
			h, err = ReadHeader(conn)
		}
		if err != nil || first[0] != testByte || h.To != nodeID(n) {
			_ = conn.Close()
			return
		}
		m.Serve(conn, h)
	})
	one := &node{Mux: m, w: w, id: nodeID(n)}
	one.stop = sync.OnceFunc(func() {
		assert.Equal(w.t, m.Close(), nil)
		closeListener()
	})
	w.t.Cleanup(one.stop)
	return one
}

func (n *node) open(number uint32) *Group {
	n.w.t.Helper()
	g, err := n.Open(number, testCluster)
	assert.NoError(n.w.t, err)
	n.w.t.Cleanup(func() { _ = g.Close() })
	return g
}

// respond answers every request of a group with the term and its last entry's index, until the group is closed.
func respond(g *Group, term uint64) {
	for {
		select {
		case rpc := <-g.Consumer():
			respondTo(rpc, term)
		case <-g.Done():
			return
		}
	}
}

func respondTo(rpc raft.RPC, term uint64) *raft.AppendEntriesRequest {
	req := rpc.Command.(*raft.AppendEntriesRequest)
	resp := &raft.AppendEntriesResponse{Term: term, Success: true}
	if n := len(req.Entries); n > 0 {
		resp.LastLog = req.Entries[n-1].Index
	}
	rpc.Respond(resp, nil)
	return req
}

// takeRPC returns the next request of a group, unanswered.
func takeRPC(t testing.TB, g *Group) raft.RPC {
	t.Helper()
	select {
	case rpc := <-g.Consumer():
		return rpc
	case <-time.After(patience):
		t.Fatal("no request has come")
		return raft.RPC{}
	}
}

func sendHeartbeat(g *Group, to int) (uint64, error) {
	var resp raft.AppendEntriesResponse
	err := g.AppendEntries(nodeID(to), &raft.AppendEntriesRequest{Term: 1}, &resp)
	return resp.Term, err
}

// withEntry returns a request with one entry.
func withEntry(index uint64, data []byte) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		Term: 1, PrevLogEntry: index - 1, Entries: []*raft.Log{{Index: index, Term: 1, Data: data}},
	}
}

func replicate(g *Group, to int, index uint64) error {
	var resp raft.AppendEntriesResponse
	err := g.AppendEntries(nodeID(to), withEntry(index, []byte("data")), &resp)
	if err == nil && resp.LastLog != index {
		err = fmt.Errorf("entry %d was answered for %d", index, resp.LastLog)
	}
	return err
}

// arrive waits until every goroutine of the bubble waits, and fails the test if the event has not happened by then.
func arrive(t testing.TB, what string, happened func() bool) {
	t.Helper()
	synctest.Wait()
	if !happened() {
		t.Fatalf("not yet: %s", what)
	}
}

// begin runs f in a goroutine and returns a channel that receives its error.
func begin(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// await returns the error from done.
func await(t testing.TB, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("%s does not end", what)
		return nil
	}
}
