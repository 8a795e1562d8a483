package peer

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// older stands before a node and makes it one of a build that knows of no streams: it hangs up on them as such a build
// does, at the first byte.
type older struct {
	addr    string
	behind  string
	id      string      // of the node behind
	newer   atomic.Bool // it knows of them by now
	down    atomic.Bool // it hangs up on everybody
	own     atomic.Int64
	streams atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

func newOlder(t *testing.T, behind, id string) *older {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &older{addr: l.Addr().String(), behind: behind, id: id}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { o.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // nothing was promised there
		o.restart()
		served.Wait()
	})
	return o
}

func (o *older) serve(conn net.Conn) {
	defer conn.Close()
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil || o.down.Load() {
		return
	}
	if first[0] == helloByte {
		if _, err := io.CopyN(io.Discard, conn, idBytes); err != nil {
			return
		}
		if _, err := io.WriteString(conn, o.id+string(rune(takesPart))); err != nil {
			return
		}
		if _, err := io.ReadFull(conn, first[:]); err != nil {
			return
		}
	}
	switch {
	case first[0] != wireByte:
		o.own.Add(1)
	case !o.newer.Load():
		return
	default:
		o.streams.Add(1)
	}
	through, err := net.Dial("tcp", o.behind)
	if err != nil {
		return
	}
	defer through.Close()
	o.mu.Lock()
	o.conns = append(o.conns, conn, through)
	o.mu.Unlock()
	if _, err := through.Write(first[:]); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(conn, through) // ends with either
		_ = conn.Close()
	}()
	_, _ = io.Copy(through, conn) // so does this
}

// restart hangs up on everybody.
func (o *older) restart() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.conns {
		_ = c.Close() // it may be closed already
	}
	o.conns = nil
}

// A node of an older build is sent its entries the way that it knows, and by streams when it is back as a newer one. The
// other direction needs nothing: what an older build sends has its way as ever.
func TestOlderBuild(t *testing.T) {
	b := newBook()
	one, two := listen(t, b, 1), listen(t, b, 2)
	before := newOlder(t, two.Addr(), nodeID(2))
	b.set(nodeID(2), before.addr)
	from, to := transport(t, one, 1, cluster), transport(t, two, 1, cluster)
	go acknowledge(to, 5, t.Context().Done())
	id, addr := raft.ServerID(nodeID(2)), raft.ServerAddress(nodeID(2))
	beat := func() error {
		var resp raft.AppendEntriesResponse
		return from.AppendEntries(id, addr, &raft.AppendEntriesRequest{Term: 1}, &resp)
	}
	for range 3 {
		if term, err := appendTo(from, 2, 10<<10); err != nil || term != 5 {
			t.Errorf("entries: term %d, %v", term, err)
		}
		if err := beat(); err != nil {
			t.Errorf("a heartbeat: %v", err)
		}
	}
	pipeline, err := from.AppendEntriesPipeline(id, addr)
	if err != nil {
		t.Fatal(err)
	}
	send := func(p raft.AppendPipeline) error {
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse)); err != nil {
			return err
		}
		return (<-p.Consumer()).Error()
	}
	if err := send(pipeline); err != nil {
		t.Errorf("a pipeline: %v", err)
	}
	if own, streams := before.own.Load(), before.streams.Load(); own == 0 || streams != 0 {
		t.Errorf("%d connections of its own, %d streams", own, streams)
	}

	before.newer.Store(true)
	before.restart()
	if err := send(pipeline); err == nil {
		t.Error("the pipeline has survived")
	}
	if err := pipeline.Close(); err != nil {
		t.Error(err)
	}
	again, err := from.AppendEntriesPipeline(id, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	own := before.own.Load()
	if err := send(again); err != nil {
		t.Errorf("a pipeline by streams: %v", err)
	}
	if err := beat(); err != nil {
		t.Errorf("a heartbeat by a stream: %v", err)
	}
	if streams := before.streams.Load(); before.own.Load() != own || streams != 2 {
		t.Errorf("%d streams, %d connections of its own before and %d after", streams, own, before.own.Load())
	}
}

// That a node fails is taken for its being exchanged: the first heartbeat after it is back may go by a stream.
func TestOlderBuildIsExchanged(t *testing.T) {
	b := newBook()
	one, two := listen(t, b, 1), listen(t, b, 2)
	before := newOlder(t, two.Addr(), nodeID(2))
	b.set(nodeID(2), before.addr)
	from, to := transport(t, one, 1, cluster), transport(t, two, 1, cluster)
	go acknowledge(to, 5, t.Context().Done())
	if term, err := appendTo(from, 2, 10); err != nil || term != 5 {
		t.Fatalf("term %d, %v", term, err)
	}
	before.newer.Store(true)
	if term, err := appendTo(from, 2, 10); err != nil || term != 5 || before.streams.Load() != 0 {
		t.Fatalf("while nothing fails: term %d, %v, %d streams", term, err, before.streams.Load())
	}
	before.down.Store(true)
	before.restart()
	if _, err := appendTo(from, 2, 10); err == nil {
		t.Fatal("the dead take entries")
	}
	before.down.Store(false)
	if term, err := appendTo(from, 2, 10); err != nil || term != 5 || before.streams.Load() != 1 {
		t.Errorf("when it is back: term %d, %v, %d streams", term, err, before.streams.Load())
	}
}
