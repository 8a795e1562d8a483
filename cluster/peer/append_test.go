package peer

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/peer/internal/wire"
	"github.com/belfryhq/belfry/internal/assert"
)

// acknowledge answers every heartbeat and every request with entries on a transport.
func acknowledge(tr *RaftTransport, term uint64, done <-chan struct{}) {
	for {
		select {
		case rpc := <-tr.Consumer():
			rpc.Respond(&raft.AppendEntriesResponse{Term: term, Success: true}, nil)
		case <-done:
			return
		}
	}
}

// appendTo sends one entry of size bytes to node n.
func appendTo(tr *RaftTransport, n, size int) (uint64, error) {
	req := &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 1, Entries: []*raft.Log{
		{Index: 2, Term: 1, Data: bytes.Repeat([]byte("x"), size)},
	}}
	var resp raft.AppendEntriesResponse
	err := tr.AppendEntries(raft.ServerID(nodeID(n)), raft.ServerAddress(nodeID(n)), req, &resp)
	return resp.Term, err
}

// A node at a stale address must not acknowledge entries that are meant for another node.
func TestEntriesForSomebodyElseAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		one, two, three := listen(t, b, 1), listen(t, b, 2), listen(t, b, 3)
		from, to := transport(t, one, 7, cluster), transport(t, two, 7, cluster)
		other := transport(t, three, 7, "another-cluster-")
		go acknowledge(to, 2, t.Context().Done())
		go acknowledge(other, 3, t.Context().Done())
		_, err := appendTo(from, 3, 10)
		assert.ErrorIs(t, err, wire.WrongNode, "another cluster's node answers")
		b.set(nodeID(3), two.Addr())
		if _, err := appendTo(from, 3, 10); err == nil {
			t.Error("node 2 acknowledged as node 3")
		}
		expectDropped(t, two, droppedMisled, 1)   // by the hello
		expectDropped(t, three, droppedMisled, 1) // by the header of its stream
		if term, err := appendTo(from, 2, 10); err != nil || term != 2 {
			t.Errorf("term %d, %v", term, err)
		}
	})
}

// expectAnySize checks that node 2, which answers in term 5, takes entries of all sizes.
func expectAnySize(t *testing.T, from *RaftTransport) {
	t.Helper()
	for _, size := range []int{0, 100, 100 << 10, 3 << 20} {
		if term, err := appendTo(from, 2, size); err != nil || term != 5 {
			t.Errorf("%d bytes: term %d, %v", size, term, err)
		}
	}
}

func TestEntriesAmongNodesWithoutKeys(t *testing.T) {
	b := newBook()
	from, to := transport(t, listen(t, b, 1), 1, cluster), transport(t, listen(t, b, 2), 1, cluster)
	go acknowledge(to, 5, t.Context().Done())
	expectAnySize(t, from)
}

func TestEntriesAmongNodesWithKeys(t *testing.T) {
	a, b := newAuthority(t), newBook()
	one := listen(t, b, 1, a.keys(t, "n1"))
	two := listen(t, b, 2, a.keys(t, "n2"), func(c *Config) {
		c.Directory = only{b, func(name string) bool { return name == "n1" }}
	})
	stranger := listen(t, b, 9, a.keys(t, "n9"))
	b.nodes[nodeID(2)] = Target{Addr: two.Addr(), Name: "n2"}
	from, to := transport(t, one, 1, cluster), transport(t, two, 1, cluster)
	go acknowledge(to, 5, t.Context().Done())
	expectAnySize(t, from)
	_, err := appendTo(transport(t, stranger, 1, cluster), 2, 10)
	assert.ErrorIs(t, err, wire.Stranger, "a stranger is answered")
}

// Streams are bounded like every kind of connection. A caller whose stream does not fit is told the reason, and the
// open streams stay.
func TestStreamsHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		one := listen(t, b, 1)
		two := listen(t, b, 2, func(c *Config) { c.MaxConns = 1 })
		from, to := transport(t, one, 1, cluster), transport(t, two, 1, cluster)
		go acknowledge(to, 5, t.Context().Done())
		if term, err := appendTo(from, 2, 10); err != nil || term != 5 {
			t.Fatalf("term %d, %v", term, err)
		}
		var resp raft.AppendEntriesResponse
		err := from.AppendEntries(raft.ServerID(nodeID(2)), raft.ServerAddress(nodeID(2)), &raft.AppendEntriesRequest{}, &resp)
		assert.ErrorIs(t, err, wire.NoRoom, "a heartbeat")
		expectDropped(t, two, droppedFull, 1)
		if term, err := appendTo(from, 2, 10); err != nil || term != 5 {
			t.Errorf("term %d, %v", term, err)
		}
	})
}

// A peer that returns, even at another address, takes the first entry that is sent to it.
func TestEntriesReachWhoeverIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		from := transport(t, listen(t, b, 1), 1, cluster)
		for round := range uint64(3) {
			two := listen(t, b, 2)
			go acknowledge(transport(t, two, 1, cluster), round, t.Context().Done())
			if term, err := appendTo(from, 2, 10); err != nil || term != round {
				t.Fatalf("round %d: term %d, %v", round, term, err)
			}
			assert.NoError(t, two.Close())
			synctest.Wait()
			if _, err := appendTo(from, 2, 10); err == nil {
				t.Fatal("a stopped peer takes entries")
			}
		}
	})
}
