package wire

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// All groups of two nodes share two connections each way, and each group receives its own answers.
func TestGroupsShareStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.node(1), w.node(2)
		const groups = 20
		var all []<-chan error
		for number := range uint32(groups) {
			from, to := one.open(number), two.open(number)
			go respond(to, uint64(100+number))
			all = append(all, begin(func() error {
				for i := range uint64(50) {
					term, err := sendHeartbeat(from, 2)
					if err == nil && term != uint64(100+number) {
						err = errors.New("another group's answer")
					}
					if err := errors.Join(err, replicate(from, 2, i+1)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		for _, done := range all {
			assert.NoError(t, await(t, "an exchange", done))
		}
		if n := w.dials.Load(); n != 2 {
			t.Errorf("%d connections, not two", n)
		}
	})
}

// A group whose Raft takes no request does not delay the answers of other groups, even on the same stream.
func TestStuckGroupStandsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.node(1), w.node(2)
		stuck, live := one.open(1), one.open(2)
		inbox := two.open(1)
		go respond(two.open(2), 5)
		var waiting []<-chan error
		for i := range uint64(10) {
			waiting = append(waiting, begin(func() error { _, err := sendHeartbeat(stuck, 2); return err }),
				begin(func() error { return replicate(stuck, 2, i+1) }))
		}
		for i := range uint64(100) {
			_, err := sendHeartbeat(live, 2)
			assert.NoError(t, err)
			assert.NoError(t, replicate(live, 2, i+1))
		}
		for _, done := range waiting {
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("the stuck group was answered: %v", err)
			default:
			}
		}
		go respond(inbox, 6)
		for _, done := range waiting {
			assert.Equal(t, await(t, "the stuck call", done), nil)
		}
	})
}

// Requests beyond a stuck group's bound are refused, but not before there is room.
func TestFullInboxRefusesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.node(1), w.node(2)
		from, to := one.open(1), two.open(1)
		data := make([]byte, inboxBytes/4)
		send := func(index uint64, data []byte) <-chan error {
			before := to.arrived()
			var resp raft.AppendEntriesResponse
			done := begin(func() error { return from.AppendEntries(nodeID(2), withEntry(index, data), &resp) })
			arrive(t, "a request arrives", func() bool { return to.arrived() > before })
			return done
		}
		var taken []<-chan error
		for i := range uint64(4) {
			taken = append(taken, send(i+1, data))
		}
		large := send(5, []byte("a byte too much"))
		for i := range uint64(inboxRequests - 4) {
			taken = append(taken, send(i+6, nil))
		}
		many := send(100, nil)
		for _, done := range []<-chan error{large, many} {
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("refused at once: %v", err)
			default:
			}
		}
		assert.Equal(t, two.waiting.Load(), inboxBytes, "bytes are waiting")
		respondTo(<-to.Consumer(), 1)
		for _, done := range []<-chan error{large, many} {
			if err := await(t, "the refused call", done); err == nil || err.Error() != errFull.Error() {
				t.Errorf("not refused: %v", err)
			}
		}
		go respond(to, 1)
		for _, done := range taken {
			assert.Equal(t, await(t, "the accepted call", done), nil)
		}
		assert.Equal(t, two.waiting.Load(), 0, "bytes are still counted as waiting")
	})
}

// arrived returns the number of requests that are in the inbox or were refused.
func (g *Group) arrived() uint64 {
	g.inbox.mu.Lock()
	defer g.inbox.mu.Unlock()
	return g.inbox.next + uint64(len(g.inbox.refused))
}

// A peer that was killed and returns, even at another address, answers the first request that it can.
func TestRestartedPeerIsReachedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		from := w.node(1).open(1)
		for round := range uint64(3) {
			two := w.node(2)
			go respond(two.open(1), round)
			if term, err := sendHeartbeat(from, 2); err != nil || term != round {
				t.Fatalf("round %d: term %d, %v", round, term, err)
			}
			assert.NoError(t, replicate(from, 2, 1), "round %d", round)
			two.stop()
			arrive(t, "it hears that its streams have ended", func() bool { return len(from.mux.streams()) == 0 })
		}
	})
}

func (m *Mux) streams() []*client {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []*client
	for cl := range m.clients {
		open = append(open, cl)
	}
	return open
}

// Requests in flight fail when their peer is killed, not at their timeout.
func TestKilledPeerFailsWhatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.timeout = time.Hour
		one, two := w.node(1), w.node(2)
		from, to := one.open(1), two.open(1)
		done := begin(func() error { return replicate(from, 2, 1) })
		takeRPC(t, to)
		two.stop()
		assert.Error(t, await(t, "a request to the dead", done), "the killed peer has answered")
	})
}

// A silent peer costs each request its timeout, and then the stream, even if it took the stream: a new stream may reach
// a live node.
func TestSilentPeerIsDialledAnew(t *testing.T) {
	for name, first := range map[string][]byte{"from the first": nil, "then": {version}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testSilentPeer(t, first) })
		})
	}
}

func testSilentPeer(t *testing.T, first []byte) {
	w := newWorld(t)
	w.timeout = 200 * time.Millisecond
	from := w.node(1).open(1)
	var seen atomic.Int64
	w.listen(2, func(conn net.Conn) {
		seen.Add(1)
		_, _ = conn.Write(first)
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	})
	for range 3 {
		began := time.Now()
		beat := begin(func() error { _, err := sendHeartbeat(from, 2); return err })
		if err := replicate(from, 2, 1); err == nil {
			t.Fatal("an answer from nobody")
		}
		if err := await(t, "a heartbeat to nobody", beat); err == nil {
			t.Fatal("an answer from nobody")
		}
		assert.Equal(t, time.Since(began), w.timeout, "given up after")
	}
	assert.Equal(t, seen.Load(), 6, "connections for three exchanges for each traffic")
}

// One request that is not answered in time does not end a stream on which others are answered.
func TestLateRequestFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.timeout = 300 * time.Millisecond
		one, two := w.node(1), w.node(2)
		stuck, live := one.open(1), one.open(2)
		inbox := two.open(1)
		go respond(two.open(2), 5)
		done := begin(func() error { return replicate(stuck, 2, 1) })
		late := takeRPC(t, inbox)
		for {
			assert.NoError(t, replicate(live, 2, 1))
			time.Sleep(time.Millisecond) // of the bubble's clock
			select {
			case err := <-done:
				if !errors.Is(err, errTimeout) {
					t.Fatal(err)
				}
			default:
				continue
			}
			break
		}
		respondTo(late, 9) // its sender has given up
		assert.NoError(t, replicate(live, 2, 2))
		assert.Equal(t, w.dials.Load(), 1, "connections")
	})
}

func TestUnknownGroupIsAnErrorOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.node(1), w.node(2)
		unknown, known := one.open(1), one.open(2)
		go respond(two.open(2), 5)
		foreign, err := two.Open(1, "another-cluster-")
		assert.NoError(t, err)
		go func() {
			select {
			case <-foreign.Consumer():
				t.Error("a request of another cluster")
			case <-foreign.Done():
			}
		}()
		for range 3 {
			if err := replicate(unknown, 2, 1); err == nil || err.Error() != errNotHere.Error() {
				t.Errorf("answered: %v", err)
			}
			assert.Equal(t, replicate(known, 2, 1), nil)
		}
		assert.Equal(t, w.dials.Load(), 1, "connections")
	})
}

func TestClosedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.node(1), w.node(2)
		from, to := one.open(1), two.open(1)
		sender, inbox := one.open(2), two.open(2)
		here := begin(func() error { return replicate(from, 2, 1) })
		there := begin(func() error { return replicate(sender, 2, 1) })
		rpc := takeRPC(t, to)
		takeRPC(t, inbox)
		assert.NoError(t, errors.Join(from.Close(), inbox.Close()))
		assert.ErrorIs(t, await(t, "a closed group's request", here), raft.ErrTransportShutdown, "ended with")
		if err := await(t, "a request to a closed group", there); err == nil || err.Error() != errNotHere.Error() {
			t.Errorf("ended with %v", err)
		}
		assert.ErrorIs(t, replicate(from, 2, 1), raft.ErrTransportShutdown, "sent")
		_, err := from.Pipeline(nodeID(2))
		assert.ErrorIs(t, err, raft.ErrTransportShutdown, "a pipeline")
		if _, err := one.Open(2, testCluster); err == nil {
			t.Error("a group was opened twice")
		}
		respondTo(rpc, 7)
		go respond(to, 7)
		assert.Equal(t, replicate(one.open(1), 2, 3), nil)
	})
}

// Entries of any size arrive unchanged, also several at once.
func TestLargeEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		from, to := w.node(1).open(1), w.node(2).open(1)
		sent := &raft.AppendEntriesRequest{Term: 1}
		for i, n := range []int{0, 10, 3 << 20, byReference, 20, 2*trusted + 1} {
			data := make([]byte, n)
			for j := range data {
				data[j] = byte(i + j*7)
			}
			sent.Entries = append(sent.Entries, &raft.Log{Index: uint64(i + 1), Data: data, Extensions: []byte{byte(i)}})
		}
		var resp raft.AppendEntriesResponse
		done := begin(func() error { return from.AppendEntries(nodeID(2), sent, &resp) })
		got := respondTo(takeRPC(t, to), 1)
		if err := await(t, "a large request", done); err != nil || resp.LastLog != uint64(len(sent.Entries)) {
			t.Fatalf("%+v, %v", resp, err)
		}
		for i, e := range got.Entries {
			want := sent.Entries[i]
			if e.Index != want.Index || string(e.Data) != string(want.Data) || string(e.Extensions) != string(want.Extensions) {
				t.Errorf("entry %d is not what was sent", i)
			}
			if cap(e.Data) > len(e.Data)+len(e.Data)/4+16 {
				t.Errorf("entry %d of %d bytes keeps %d", i, len(e.Data), cap(e.Data))
			}
		}
	})
}

// A peer that sends requests and never reads the answers loses its stream, and does not delay the node.
func TestDeafPeerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.timeout = 300 * time.Millisecond
		two := w.node(2)
		go respond(two.open(1), 1)
		conn, there := net.Pipe() // it buffers nothing
		defer conn.Close()
		go two.Serve(there, Header{From: nodeID(1), To: nodeID(2), Cluster: testCluster})
		_, err := conn.Read(make([]byte, 1)) // the last read of the peer
		var b batch
		for i := range uint64(1000) {
			assert.NoError(t, appendRequest(&b, 9, i, self, &raft.AppendEntriesRequest{Term: 1}))
		}
		began := time.Now()
		for err == nil && time.Since(began) < patience {
			_, err = conn.Write(b.buf)
			time.Sleep(time.Millisecond) // of the bubble's clock
		}
		if took := time.Since(began); took > 2*w.timeout {
			t.Errorf("the stream stayed open for %v", took)
		}
	})
}

func TestClosedMux(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.node(1), w.node(2)
		from, to := one.open(1), two.open(1)
		done := begin(func() error { return replicate(from, 2, 1) })
		takeRPC(t, to)
		one.stop()
		assert.Error(t, await(t, "a request of the closed", done), "it was answered")
		_, err := one.Open(2, testCluster)
		assert.ErrorIs(t, err, net.ErrClosed, "a group was opened after the end")
	})
}

// Offered requests reach Raft in order, and their answers go to the offering connection.
func TestOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		to := w.node(2).open(1)
		answers := make(chan raft.RPCResponse, 1)
		done := begin(func() error {
			to.Offer(raft.RPC{Command: &raft.RequestVoteRequest{Term: 3}, RespChan: answers})
			return nil
		})
		rpc := takeRPC(t, to)
		if _, ok := rpc.Command.(*raft.RequestVoteRequest); !ok {
			t.Fatalf("%T", rpc.Command)
		}
		rpc.Respond(&raft.RequestVoteResponse{Term: 4}, nil)
		assert.NoError(t, await(t, "an offer", done))
		r := <-answers
		assert.Equal(t, r.Response.(*raft.RequestVoteResponse).Term, 4, "%+v", r)
		assert.NoError(t, to.Close())
		if to.Offer(raft.RPC{}) {
			t.Error("a closed group takes offers")
		}
	})
}

// Offered requests without an answer do not keep others from Raft, up to a bound.
func TestOffersDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.node(1), w.node(2)
		from, to := one.open(1), two.open(1)
		for range maxOffered {
			if !to.Offer(raft.RPC{Command: &raft.InstallSnapshotRequest{}, RespChan: make(chan raft.RPCResponse, 1)}) {
				t.Fatal("not taken")
			}
		}
		oneMore := make(chan struct{})
		go func() {
			defer close(oneMore)
			to.Offer(raft.RPC{Command: &raft.RequestVoteRequest{}, RespChan: make(chan raft.RPCResponse, 1)})
		}()
		var all []<-chan error
		for range inboxRequests {
			all = append(all, begin(func() error { _, err := sendHeartbeat(from, 2); return err }))
		}
		arrive(t, "all have arrived", func() bool { return to.arrived() == inboxRequests })
		synctest.Wait()
		select {
		case <-oneMore:
			t.Error("more were taken than there is room for")
		default:
		}
		for waiting := len(all); waiting > 0; { // behind the offers, which stay unanswered
			rpc := takeRPC(t, to)
			if _, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
				respondTo(rpc, 1)
				waiting--
			}
		}
		for _, done := range all {
			assert.Equal(t, await(t, "a heartbeat", done), nil)
		}
		synctest.Wait()
		select {
		case <-oneMore:
			t.Error("there was room though nothing was answered")
		default:
		}
	})
}
