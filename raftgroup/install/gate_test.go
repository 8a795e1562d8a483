package install

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/internal/logcache"
	"github.com/belfryhq/belfry/raftgroup/logstore"
)

// follower is a replica behind a gate. The test is its leader.
type follower struct {
	t     *testing.T
	raft  *raft.Raft
	gate  *Gate
	cfg   logstore.Config
	log   raft.LogStore
	fsm   *machine
	in    chan raft.RPC
	fatal chan error

	applied uint64 // last index applied by the previous process, as the gate knows it

	stores    *logstore.Stores
	snapshots *raft.InmemSnapshotStore
}

type machine struct {
	restored atomic.Int32
	began    chan struct{} // gets a token when a snapshot is being written
	taking   chan struct{} // the writing of a snapshot ends when this is closed
}

func (*machine) Apply(*raft.Log) any { return nil }

func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return taken{m}, nil }

type taken struct{ *machine }

func (t taken) Persist(sink raft.SnapshotSink) error {
	t.began <- struct{}{}
	<-t.taking
	return sink.Close()
}

func (taken) Release() {}

func (m *machine) Restore(snapshot io.ReadCloser) error {
	m.restored.Add(1)
	_, err := io.Copy(io.Discard, snapshot)
	return err
}

// hearing is a transport whose requests come from the test.
type hearing struct {
	*raft.InmemTransport
	in chan raft.RPC
}

func (h hearing) Consumer() <-chan raft.RPC { return h.in }

var voters = raft.Configuration{Servers: []raft.Server{
	{ID: "a", Address: "a"}, {ID: "b", Address: "b"}, {ID: "c", Address: "c"},
}}

func follow(t *testing.T, kind logstore.Kind) *follower {
	t.Helper()
	f := &follower{t: t, snapshots: raft.NewInmemSnapshotStore(), cfg: logstore.Config{
		Dir: t.TempDir(), Kind: kind, WriteTimeout: time.Hour, Fatal: func(err error) { t.Error(err) },
	}}
	f.start()
	t.Cleanup(f.stop)
	return f
}

// bothKinds runs a test with each kind of log.
func bothKinds(t *testing.T, test func(t *testing.T, kind logstore.Kind)) {
	t.Helper()
	for _, kind := range []logstore.Kind{logstore.WAL, logstore.BoltDB} {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// start starts the replica from its storage.
func (f *follower) start() {
	f.t.Helper()
	var err error
	f.stores, err = logstore.Open(f.cfg)
	assert.NoError(f.t, err)
	f.log, f.cfg.Existing = logcache.New(f.stores.Log(), 1<<10), true
	f.fsm = &machine{began: make(chan struct{}, 1), taking: make(chan struct{})}
	f.in, f.fatal = make(chan raft.RPC, 16), make(chan error, 1)
	_, inmem := raft.NewInmemTransport("a")
	f.gate = New(hearing{inmem, f.in}, f.log, slog.New(slog.DiscardHandler), func(err error) { f.fatal <- err })
	f.gate.Remember(f.applied)
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = "a", hclog.NewNullLogger()
	conf.HeartbeatTimeout, conf.ElectionTimeout = time.Hour, time.Hour
	transport := f.gate.Transport()
	err = raft.BootstrapCluster(conf, f.log, f.stores.Stable(), f.snapshots, transport, voters)
	if err == nil || errors.Is(err, raft.ErrCantBootstrap) {
		f.raft, err = raft.NewRaft(conf, f.fsm, f.log, f.stores.Stable(), f.snapshots, transport)
	}
	assert.NoError(f.t, err)
	f.gate.Open(f.raft)
}

func (f *follower) stop() {
	assert.Equal(f.t, errors.Join(f.raft.Shutdown().Error(), f.stores.Close()), nil)
}

var header = raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("b"), Addr: []byte("b")}

// entries sends the entries from one index to another, behind an entry of the same term.
func (f *follower) entries(term, from, to, commit uint64) <-chan raft.RPCResponse {
	req := &raft.AppendEntriesRequest{
		RPCHeader: header, Term: term, PrevLogEntry: from - 1, PrevLogTerm: term, LeaderCommitIndex: commit,
	}
	if from == 2 {
		req.PrevLogTerm = 1 // the term of the configuration
	}
	for i := from; i <= to; i++ {
		req.Entries = append(req.Entries, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: []byte("x")})
	}
	return f.ask(req, nil)
}

// snapshot sends a snapshot of all entries up to last, an entry of lastTerm.
func (f *follower) snapshot(term, last, lastTerm uint64) <-chan raft.RPCResponse {
	const content = "all that there is"
	return f.ask(&raft.InstallSnapshotRequest{
		RPCHeader: header, SnapshotVersion: raft.SnapshotVersionMax, Term: term, LastLogIndex: last, LastLogTerm: lastTerm,
		Configuration: raft.EncodeConfiguration(voters), ConfigurationIndex: 1, Size: int64(len(content)),
	}, strings.NewReader(content))
}

func (f *follower) ask(command any, body io.Reader) <-chan raft.RPCResponse {
	answer := make(chan raft.RPCResponse, 1)
	f.in <- raft.RPC{Command: command, Reader: body, RespChan: answer}
	return answer
}

func (f *follower) done(what string, answer <-chan raft.RPCResponse) {
	f.t.Helper()
	r := <-answer
	success := false
	switch resp := r.Response.(type) {
	case *raft.AppendEntriesResponse:
		success = resp.Success
	case *raft.InstallSnapshotResponse:
		success = resp.Success && resp.Term == f.raft.CurrentTerm()
	}
	if r.Error != nil || !success {
		f.t.Fatalf("%s: %+v, %v", what, r.Response, r.Error)
	}
}

func (f *follower) holds(first, last, applied uint64, restored int32) {
	f.t.Helper()
	from, err := f.log.FirstIndex()
	to, err2 := f.log.LastIndex()
	if err := errors.Join(err, err2); err != nil || from != first || to != last {
		f.t.Errorf("the log holds %d to %d, not %d to %d: %v", from, to, first, last, err)
	}
	assert.Equal(f.t, f.raft.AppliedIndex(), applied, "applied up to")
	if got := f.fsm.restored.Load(); got != restored {
		f.t.Errorf("restored %d times, not %d", got, restored)
	}
}

// TestKnownSnapshot checks that a snapshot of entries that the replica has is not installed, and that the entries
// behind it stay.
func TestKnownSnapshot(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		for name, commit := range map[string]uint64{"applied": 10, "in the log": 3} {
			t.Run(name, func(t *testing.T) {
				f := follow(t, kind)
				f.done("entries", f.entries(2, 2, 10, commit))
				f.done("snapshot", f.snapshot(2, 5, 2))
				f.holds(1, 10, commit, 0)
				f.done("the next entry", f.entries(2, 11, 11, 11))
				f.holds(1, 11, 11, 0)
			})
		}
	})
}

// TestSnapshotComesTwice checks that a repeated snapshot is installed once, even if the second one waits during the
// first install.
func TestSnapshotComesTwice(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		for name, queue := range map[string]func(f *follower) []<-chan raft.RPCResponse{
			"at once": func(f *follower) []<-chan raft.RPCResponse {
				return []<-chan raft.RPCResponse{f.entries(2, 2, 10, 10), f.snapshot(2, 20, 2), f.snapshot(2, 20, 2)}
			},
			"with entries in between": func(f *follower) []<-chan raft.RPCResponse {
				return []<-chan raft.RPCResponse{
					f.entries(2, 2, 10, 10), f.snapshot(2, 20, 2), f.entries(2, 21, 25, 25), f.snapshot(2, 20, 2),
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				f := follow(t, kind)
				for _, a := range queue(f) {
					f.done("one after the other", a)
				}
				f.done("what follows", f.entries(2, 21, 30, 30))
				f.holds(21, 30, 30, 1)
			})
		}
	})
}

// TestNewerSnapshot checks that a newer snapshot is installed, in a newer term as soon as the replica knows the term.
func TestNewerSnapshot(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("entries", f.entries(2, 2, 10, 10))
		r := <-f.snapshot(3, 40, 3)
		assert.Error(t, r.Error, "in a term that is not known: %+v", r.Response)
		f.done("a heartbeat", f.heartbeat(3))
		f.done("a newer one", f.snapshot(3, 40, 3))
		f.done("what follows it", f.entries(3, 41, 41, 41))
		f.holds(41, 41, 41, 1)
	})
}

// TestContradictedLog checks that entries that contradict a snapshot are removed with all behind them, and that the
// process ends, because Raft remembers where they were.
func TestContradictedLog(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("entries", f.entries(2, 2, 10, 1))
		f.done("a heartbeat", f.heartbeat(4))
		f.isCut("a snapshot", f.snapshot(4, 8, 3))
		f.holds(1, 7, 1, 0)
		f.stop()
		f.start()
		f.done("the snapshot", f.snapshot(4, 8, 3))
		f.done("what follows it", f.ask(behind(8, 3, 4, 9), nil))
		f.holds(9, 9, 9, 1)
	})
}

// behind returns a request with one entry of a term, behind an entry of another term, with a commit index.
func behind(prev, prevTerm, term, commit uint64) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		RPCHeader: header, Term: term, PrevLogEntry: prev, PrevLogTerm: prevTerm, LeaderCommitIndex: commit,
		Entries: []*raft.Log{{Index: prev + 1, Term: term, Type: raft.LogCommand}},
	}
}

func (f *follower) heartbeat(term uint64) <-chan raft.RPCResponse {
	return f.ask(&raft.AppendEntriesRequest{RPCHeader: header, Term: term}, nil)
}

func (f *follower) isCut(what string, answer <-chan raft.RPCResponse) {
	f.t.Helper()
	r := <-answer
	assert.ErrorIs(f.t, r.Error, errCut, "%s: answered %+v", what, r.Response)
	select {
	case err := <-f.fatal:
		assert.ErrorIs(f.t, err, errCut)
	default:
		f.t.Errorf("%s: the process goes on", what)
	}
}

// TestAppliedEntriesAreLeftOut checks that applied entries that the log no longer has are removed from a request, and
// that the rest is accepted.
func TestAppliedEntriesAreLeftOut(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("entries", f.entries(2, 2, 10, 10))
		f.done("a snapshot", f.snapshot(2, 20, 2))
		f.done("behind it", f.entries(2, 19, 22, 20))
		f.holds(21, 22, 20, 1)
		f.done("all of it known", f.entries(2, 16, 18, 20))
		f.done("known, and in the log, and new", f.entries(2, 16, 25, 23))
		f.holds(21, 25, 23, 1)
		f.done("new", f.entries(2, 26, 26, 26))
		f.holds(21, 26, 26, 1)
	})
}

// TestContradictionRightBehindSnapshot checks a log that begins behind a snapshot with an uncommitted entry. The log
// has no entry before that one by which Raft could notice the contradiction.
func TestContradictionRightBehindSnapshot(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("a heartbeat", f.heartbeat(2))
		f.done("a snapshot", f.snapshot(2, 20, 2))
		f.done("entries", f.entries(2, 21, 25, 20))
		f.done("a heartbeat", f.heartbeat(3))
		f.done("another leader's entry", f.ask(behind(20, 2, 3, 21), nil))
		f.holds(21, 21, 21, 1)
	})
}

// TestCommittedIsCompared checks that a request commits no entries beyond those that it compares.
func TestCommittedIsCompared(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("entries", f.entries(2, 2, 10, 3))
		f.done("a heartbeat", f.heartbeat(3))
		f.done("no entries", f.ask(&raft.AppendEntriesRequest{
			RPCHeader: header, Term: 3, PrevLogEntry: 5, PrevLogTerm: 2, LeaderCommitIndex: 7,
		}, nil))
		f.holds(1, 10, 5, 0)
		f.done("entry 6 is another", f.ask(behind(5, 2, 3, 6), nil))
		f.holds(1, 6, 6, 0)
	})
}

// TestTold checks the two conditions for a commit index to count: it belongs to an entry of the leader's own term, and
// the request reaches up to it.
func TestTold(t *testing.T) {
	f := follow(t, logstore.WAL)
	tell := func(what string, told uint64, answer <-chan raft.RPCResponse) {
		t.Helper()
		f.done(what, answer)
		assert.Equal(t, f.gate.Told(), told, what)
	}
	tell("a heartbeat", 0, f.heartbeat(2))
	tell("more is committed than comes", 0, f.entries(2, 2, 10, 12))
	tell("only an earlier leader's entries are committed", 0, f.ask(behind(10, 2, 3, 10), nil))
	tell("an entry of the leader is committed", 11, f.ask(behind(11, 3, 3, 11), nil))
	tell("the first word is enough", 11, f.ask(behind(12, 3, 3, 13), nil))
}

// TestKnownSnapshotOfNewerTerm checks that a leader of an unknown term gets no success, because Raft must record the
// term first.
func TestKnownSnapshotOfNewerTerm(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("entries", f.entries(2, 2, 10, 10))
		r := <-f.snapshot(3, 5, 2)
		assert.Error(t, r.Error, "answered %+v", r.Response)
		f.done("a heartbeat", f.heartbeat(3))
		f.done("the same again", f.snapshot(3, 5, 2))
		if r := <-f.snapshot(2, 5, 2); r.Error != nil || r.Response.(*raft.InstallSnapshotResponse).Success {
			t.Errorf("a leader that was: %+v, %v", r.Response, r.Error)
		}
		f.holds(1, 10, 10, 0)
	})
}

// TestForgottenSnapshot checks that a replica's own snapshot that ends after the install of a newer one does not make
// Raft forget the newer one. The store must refuse the older snapshot.
func TestForgottenSnapshot(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("entries", f.entries(2, 2, 10, 10))
		own := f.raft.Snapshot()
		<-f.fsm.began
		f.done("a newer one", f.snapshot(2, 20, 2))
		close(f.fsm.taking)
		assert.NoError(t, own.Error())
		if last := f.raft.LastIndex(); last != 10 {
			t.Fatalf("Raft knows of %d entries: nothing is forgotten", last)
		}
		f.done("the newer one again", f.snapshot(2, 20, 2))
		f.done("what follows it", f.entries(2, 21, 21, 21))
		f.holds(21, 21, 21, 2)
	})
}

// TestTransport checks that a wrapped transport has exactly the optional methods of the inner one.
func TestTransport(t *testing.T) {
	_, inmem := raft.NewInmemTransport("a")
	of := func(inner raft.Transport) raft.Transport {
		return New(inner, raft.NewInmemStore(), slog.New(slog.DiscardHandler), nil).Transport()
	}
	if _, ok := of(inmem).(raft.WithPreVote); !ok {
		t.Error("pre-vote is lost")
	}
	if _, ok := of(struct{ raft.Transport }{inmem}).(raft.WithPreVote); ok {
		t.Error("pre-vote is claimed for a transport without")
	}
	closer, ok := of(inmem).(raft.WithClose)
	if !ok {
		t.Fatal("close is lost")
	}
	if err := closer.Close(); err != nil { // no transport was opened
		t.Error(err)
	}
}

// TestOthersDoNotWait checks that other requests go on while an unneeded snapshot is read, and that no goroutine
// outlives the transport.
func TestOthersDoNotWait(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("entries", f.entries(2, 2, 10, 10))
		body, sent := io.Pipe()
		answer := f.ask(&raft.InstallSnapshotRequest{
			RPCHeader: header, SnapshotVersion: raft.SnapshotVersionMax, Term: 2, LastLogIndex: 5, LastLogTerm: 2,
		}, body)
		f.done("the next entry", f.entries(2, 11, 11, 11))
		select {
		case r := <-answer:
			t.Errorf("answered before it was read: %+v, %v", r.Response, r.Error)
		default:
		}
		assert.Equal(t, sent.Close(), nil)
		f.done("the snapshot", answer)
	})
}
