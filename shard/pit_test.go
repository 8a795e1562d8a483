package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup"
)

// TestNoHeartbeatFastPath checks that Raft installs no heartbeat handler in the transport.
func TestNoHeartbeatFastPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil)
		gates := c.gates()
		c.startAll()
		c.leader()
		for id, g := range gates {
			if g.heartbeat != nil {
				t.Errorf("%s: heartbeats take the fast path", id)
			}
		}
	})
}

// TestReadNeedsFreshContact checks that answers to heartbeats sent before the read prove nothing, although they satisfy
// Raft's VerifyLeader.
func TestReadNeedsFreshContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil)
		gates := c.gates()
		c.startAll()
		n := c.leader()
		g := gates[n.cfg.NodeID]
		time.Sleep(time.Minute)
		answers, frozen := make(chan struct{}), make(chan struct{})
		g.with(func(g *gate) { g.answers = answers })
		c.eventually("two heartbeats whose answers wait", func() bool {
			var held int
			g.with(func(g *gate) { held = g.held })
			return held >= 2
		})
		g.with(func(g *gate) { g.frozen = frozen })
		read := make(chan error, 1)
		go func() {
			_, err := n.Get(t.Context(), "", "a", false)
			read <- err
		}()
		synctest.Wait()
		close(answers)
		synctest.Wait()
		if len(read) > 0 {
			t.Error("answered on old evidence")
		}
		g.with(func(g *gate) { g.frozen, g.answers = nil, nil })
		close(frozen)
		assert.Equal(t, <-read, nil)
	})
}

// TestReadsShareOneProof counts the requests while 500 reads wait for the first read's proof and share the next one.
func TestReadsShareOneProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil)
		gates := c.gates()
		c.startAll()
		n := c.leader()
		g, frozen := gates[n.cfg.NodeID], make(chan struct{})
		g.with(func(g *gate) { g.frozen = frozen })
		var before, after int
		g.with(func(g *gate) { before = g.sent })
		errs := make(chan error)
		for range 500 {
			go func() {
				_, err := n.List(t.Context(), &fsmpb.ListQuery{Limit: 10}, false)
				errs <- err
			}()
		}
		synctest.Wait()
		g.with(func(g *gate) { g.frozen = nil })
		close(frozen)
		for range 500 {
			assert.Equal(t, <-errs, nil)
		}
		g.with(func(g *gate) { after = g.sent })
		if sent := after - before; sent > 20 { // two requests a round; reads that share no proof would need 1000
			t.Errorf("%d requests for 500 reads", sent)
		}
	})
}

// TestReadsEndAnOldTerm checks that a leadership that Raft lost and won again in a later term, untold, ends with the
// next read. The reads after it are answered in the later term.
func TestReadsEndAnOldTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		n.must(t, schedule("a", time.Now().Add(time.Hour)))
		old := n.current()
		old.term.Add(^uint64(0)) // one less, as if Raft had won the next term meanwhile
		var refused *task.NotLeaderError
		if _, err := n.Get(t.Context(), "", "a", false); !errors.As(err, &refused) {
			t.Fatalf("read with %v", err)
		}
		c.next(n, old)
		if got, err := n.Get(t.Context(), "", "a", false); err != nil || got == nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestDeposedLeaderReads checks that a leader that is cut off answers no linearizable read, and after a while reports
// that it does not lead.
func TestDeposedLeaderReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		old := c.leader()
		old.must(t, schedule("a", time.Now().Add(time.Hour)))
		c.cut(old.cfg.NodeID)
		got, err := old.Get(t.Context(), "", "a", false)
		assert.ErrorIs(t, err, task.ErrNotProposed, "read %v", got)
		next := c.leader(c.others(old.cfg.NodeID)...)
		next.must(t, cancelOf("a"))
		if task, err := old.Get(t.Context(), "", "a", true); err != nil || task.State != fsmpb.State_STATE_SCHEDULED {
			t.Errorf("stale read: %v, %v", task, err)
		}
		if reply := old.Do(t.Context(), []*fsmpb.Command{cancelOf("a")})[0]; !isNotLeader(reply.Err) {
			t.Errorf("write: %v", reply)
		}
		assert.Equal(t, next.state(t, "a"), fsmpb.State_STATE_CANCELLED, "state")
	})
}

// TestAmbiguity checks that a proposed command gets ErrUnknown and a command waiting behind it ErrNotProposed, even
// within one call.
func TestAmbiguity(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("leadership lost %v", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, 3, nil)
				gates := c.gates()
				c.startAll()
				n := c.leader()
				time.Sleep(time.Minute)
				gates[n.cfg.NodeID].stopEntries(true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				replies := make(chan []task.Reply, 2)
				do := func(cmds ...*fsmpb.Command) {
					go func() { replies <- n.Do(ctx, cmds) }()
					synctest.Wait()
				}
				do(schedule("a", time.Now().Add(time.Hour)))
				do(schedule("b", time.Now().Add(time.Hour)))
				if lost {
					c.cut(n.cfg.NodeID)
				} else {
					cancel()
				}
				var unknown, not int
				for range 2 {
					switch err := (<-replies)[0].Err; {
					case errors.Is(err, task.ErrUnknown):
						unknown++
					case errors.Is(err, task.ErrNotProposed):
						not++
					default:
						t.Error(err)
					}
				}
				if unknown != 1 || not != 1 {
					t.Errorf("%d unknown, %d not proposed", unknown, not)
				}
				if lost {
					c.link(n.cfg.NodeID)
				}
				gates[n.cfg.NodeID].stopEntries(false)
				task, err := c.leader().Get(context.Background(), "", "b", false)
				if task != nil || err != nil {
					t.Errorf("a task that was not proposed is there: %v, %v", task, err)
				}
			})
		})
	}
}

// TestStuckLeader checks that a leader gives up if its followers answer heartbeats but take no entries. Their answers
// alone would keep it leading.
func TestStuckLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil)
		gates := c.gates()
		c.startAll()
		n := c.leader()
		time.Sleep(time.Minute)
		gates[n.cfg.NodeID].stopEntries(true)
		began := time.Now()
		go n.Do(t.Context(), []*fsmpb.Command{schedule("a", time.Now().Add(time.Hour))})
		err := <-c.fatals
		if took := time.Since(began); took != n.cfg.Timing.Stuck || !strings.Contains(err.Error(), "committed nothing") {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// slowReads is a log on a disk with slow reads.
type slowReads struct {
	*raft.InmemStore
	each time.Duration
}

func (s slowReads) GetLog(index uint64, l *raft.Log) error {
	time.Sleep(s.each) // on the bubble's clock
	return s.InmemStore.GetLog(index, l)
}

type slowStores struct {
	memStores
	log slowReads
}

func (s slowStores) Log() raft.LogStore { return s.log }

// TestLongLogIsNotStuck checks that a restarted node may apply its log for longer than Timing.Stuck, as long as it
// makes progress.
func TestLongLogIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil)
		c.tune = func(cfg *Config) { cfg.Timing.Stuck = 10 * time.Second }
		c.startAll()
		const entries = 1000
		for i := range entries {
			c.leader().must(t, schedule(fmt.Sprint("a-", i), time.Now().Add(24*time.Hour)))
		}
		n := c.nodes["n1"]
		c.kill("n1")
		c.tune = func(cfg *Config) {
			cfg.Timing.Stuck = 10 * time.Second
			cfg.Storage = slowStores{*n.stores, slowReads{n.stores.InmemStore, 100 * time.Millisecond}}
		}
		began := time.Now()
		c.start("n1")
		c.next(n, nil)
		if len(c.fatals) > 0 {
			t.Errorf("given up after %v: %v", time.Since(began), <-c.fatals)
		}
		if took := time.Since(began); took < 2*n.cfg.Timing.Stuck {
			t.Errorf("applying the log took only %v: this shows nothing", took)
		}
	})
}

// TestUnnoticedTerm checks an entry that committed in another term than its leadership's. The leadership was lost and
// won again unnoticed, so it ends and the next one takes over.
func TestUnnoticedTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		first := n.current()
		first.term.Store(99)
		n.must(t, schedule("a", time.Now().Add(time.Minute)))
		synctest.Wait()
		assert.Error(t, first.ctx.Err(), "it goes on")
		c.next(n, first)
		time.Sleep(2 * time.Minute)
		if len(c.sink.all()) != 1 {
			t.Errorf("arrivals %v", c.sink.all())
		}
	})
}

// TestNewerVersion checks that a replica stops with a reason at an entry of a newer version.
func TestNewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		commands, _ := n.machine.Hash()
		data, err := proto.Marshal(&fsmpb.Entry{Version: fsm.CommandVersion + 1, Commands: []*fsmpb.Command{cancelOf("a")}})
		assert.NoError(t, err)
		if _, err := n.group.Propose(t.Context(), data); err == nil {
			t.Error("an entry that cannot be read was applied")
		}
		if err := <-c.fatals; !strings.Contains(err.Error(), "upgrade") {
			t.Error(err)
		}
		reply := n.Do(t.Context(), []*fsmpb.Command{schedule("a", time.Now())})[0]
		assert.Error(t, reply.Err, "it goes on")
		if after, _ := n.machine.Hash(); after != commands {
			t.Errorf("%d commands applied after the failure", after-commands)
		}
		assert.Error(t, n.group.Snapshot(), "a snapshot of a state that lacks an entry")
	})
}

// TestSnapshotInTheMiddle takes snapshots by bytes, with the log cut behind them. It then kills and restores all
// replicas, and lets one with an empty disk catch up by a snapshot. No due task is lost or repeated.
func TestSnapshotInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.SnapshotLog = 64 << 10 }).startAll()
		n, due := c.leader(), time.Now().Add(time.Hour).Truncate(time.Millisecond)
		away := c.others(n.cfg.NodeID)[0]
		c.cut(away)
		const tasks = 500
		for i := range 8 * tasks { // each task is replaced again and again, because the log must outgrow the state
			n.must(t, schedule(fmt.Sprintf("t%04d", i%tasks), due))
		}
		first, err := n.stores.FirstIndex()
		if err != nil || first < 100 {
			t.Fatalf("log begins at %d, %v", first, err)
		}
		c.link(away)
		c.agree()
		for _, id := range c.ids {
			c.kill(id)
		}
		c.startAll()
		c.leader()
		c.agree()
		time.Sleep(time.Until(due) + time.Minute)
		if got := c.sink.all(); len(got) != tasks || !got[0].at.Equal(due) {
			t.Errorf("%d arrivals of %d", len(got), tasks)
		}
		c.agree()
	})
}

// TestIdleGroupSnapshots takes a snapshot after a membership change. Raft refuses one to a state machine that does not
// learn of such changes.
func TestIdleGroupSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		seen, err := n.group.Membership(t.Context())
		if err == nil {
			err = n.group.ChangeMembers(t.Context(), seen, raftgroup.MemberChange{AddNonvoter: "n9"})
		}
		assert.NoError(t, err)
		assert.Equal(t, n.snapshots.take(t.Context()), nil)
		assert.Equal(t, n.Status().Applied, n.group.Stats().Last, "applied")
	})
}

// TestSnapshotBesideEntries checks that WriteTo, while entries are applied, writes the state at the mark. Release may
// come without WriteTo, and twice.
func TestSnapshotBesideEntries(t *testing.T) {
	machine := fsm.New(1)
	a := newApplier(machine)
	apply := func(from, to int) {
		for i := from; i < to; i++ {
			e := newEntry(time.UnixMilli(1000), 0)
			assert.NoError(t, e.add(schedule(fmt.Sprintf("t%d", i), time.UnixMilli(5000))))
			a.mustApply(t, uint64(i+1), e)
		}
	}
	apply(0, 1000)
	commands, sum := machine.Hash()
	unused, err := a.Snapshot()
	assert.NoError(t, err)
	unused.Release()
	unused.Release()
	snap, err := a.Snapshot()
	assert.NoError(t, err)
	var sink bytes.Buffer
	done := make(chan error)
	go func() {
		_, err := snap.WriteTo(&sink)
		done <- err
	}()
	apply(1000, 2000)
	assert.NoError(t, <-done)
	snap.Release()
	b := newApplier(fsm.New(1))
	assert.NoError(t, b.Restore(&sink))
	gotCommands, gotSum := b.machine.Hash()
	if gotCommands != commands || gotSum != sum || b.index.Load() != 1000 || b.term.Load() != 3 {
		t.Errorf("restored %d %x at %d, want %d %x at 1000", gotCommands, gotSum, b.index.Load(), commands, sum)
	}
	assert.Error(t, b.Restore(strings.NewReader("not a snapshot of ours at all")), "restored from rubbish")
	if gotCommands, _ := b.machine.Hash(); gotCommands != commands {
		t.Error("a failed restore changed the state")
	}
	if b.restores.Load() != 1 {
		t.Errorf("%d restores counted", b.restores.Load()) // reveals a replica that installs snapshots for ever
	}
}

// mustApply applies one entry.
func (a *applier) mustApply(tb testing.TB, index uint64, e *entry) {
	tb.Helper()
	_, err := a.Apply(raftgroup.Entry{Index: index, Term: 3, Data: e.data, Command: true})
	assert.NoError(tb, err)
}

// TestLostDisk checks that a replica that existed and lost its disk does not start as a new group.
func TestLostDisk(t *testing.T) {
	c := newReplicas(t, 1, nil)
	_, inmem := raft.NewInmemTransport("n1")
	_, err := Open(Config{
		NodeID: "n1", Existing: true, Replicas: []Replica{{"n1"}}, Transport: inmem, Deliver: c.sink.at("n1"),
		Storage: erased{c.nodes["n1"].stores}, Fatal: func(error) {},
	})
	assert.ErrorIs(t, err, raftgroup.ErrNoState)
}

// erased is a storage whose votes have no number that was never set, as on a disk. Those in memory have all numbers.
type erased struct{ raftgroup.Storage }

func (e erased) Stable() raft.StableStore { return noVotes{e.Storage.Stable()} }

type noVotes struct{ raft.StableStore }

func (noVotes) GetUint64([]byte) (uint64, error) { return 0, errors.New("not found") }

// TestPreferredLeads checks that the preferred node wins the first election after a start, and gets the leadership back
// once it is back and well.
func TestPreferredLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, preferred := range []string{"n1", "n2", "n3"} {
			c := newReplicas(t, 3, func(cfg *Config) { cfg.Preferred = preferred }).startAll()
			if got := c.leader(); got.cfg.NodeID != preferred || got.group.Term() != 2 {
				t.Errorf("%s leads term %d, %s is preferred", got.cfg.NodeID, got.group.Term(), preferred)
			}
			c.kill(preferred)
			c.leader()
			time.Sleep(5 * time.Minute)
			c.start(preferred)
			c.eventually("home", func() bool { return c.nodes[preferred].IsLeader() })
			c.close()
		}
	})
}

// TestLeadershipFollowsThePreference checks that the leadership moves to a node that becomes the preferred one, also
// while it is on its way to another.
func TestLeadershipFollowsThePreference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Preferred = "n1" }).startAll()
		prefer := func(node string) {
			for _, n := range c.nodes {
				n.Prefer(node)
			}
		}
		c.leader()
		prefer("n2")
		time.Sleep(c.timing().Calm / 2)
		prefer("n3")
		c.eventually("led by n3", func() bool { return c.nodes["n3"].IsLeader() })
		if term := c.nodes["n3"].group.Term(); term != 3 {
			t.Errorf("in term %d: it led on its way", term)
		}
		prefer("stranger")
		prefer("n1")
		c.eventually("led by n1", func() bool { return c.nodes["n1"].IsLeader() })
	})
}

// TestHomeIsWellForAWhile checks that a returning node, which has its log to apply, gets its leaderships only after it
// was in touch for the whole calm, however long the others have led by then.
func TestHomeIsWellForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Preferred = "n1" }).startAll()
		c.leader()
		calm := c.timing().Calm
		c.kill("n1")
		second := c.leader()
		for range 6 { // the node comes and goes
			time.Sleep(calm / 2)
			c.start("n1")
			time.Sleep(calm * 3 / 4)
			if !second.IsLeader() {
				t.Fatal("it got the leadership and had not been there for a calm")
			}
			c.kill("n1")
		}
		time.Sleep(calm / 2)
		c.start("n1")
		began := time.Now()
		c.eventually("home", func() bool { return c.nodes["n1"].IsLeader() })
		if took := time.Since(began); took < calm || took > 3*calm {
			t.Errorf("home after %v, the calm is %v", took, calm)
		}
	})
}

// TestPoliteTransferIsShort checks that calls do not wait for a slow voter during a transfer that is not urgent.
func TestPoliteTransferIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		to := c.others(n.cfg.NodeID)[0]
		c.cut(to)
		n.must(t, schedule("it lacks this one", time.Now().Add(time.Hour)))
		began := time.Now()
		if err := n.current().transfer(t.Context(), to, 0, false); err == nil {
			t.Error("the leadership was given to a voter that lacks an entry")
		}
		if took := time.Since(began); took > politeDrain+c.timing().Election/politePart+10*time.Millisecond {
			t.Errorf("calls waited for %v", took)
		}
		n.must(t, schedule("after", time.Now().Add(time.Hour)))
	})
}

// TestTransferGivenUp checks that a shard works on after a transfer that running attempts prevented.
func TestTransferGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil)
		hang := make(chan struct{})
		c.sink.respond = func(context.Context, task.Attempt) task.Outcome { <-hang; return task.Outcome{Delivered: true} }
		c.startAll()
		defer close(hang)
		n := c.leader()
		n.must(t, schedule("hangs", time.Now()))
		c.eventually("an attempt runs", func() bool { return n.attempts.count() == 1 })
		err := n.current().transfer(t.Context(), c.others(n.cfg.NodeID)[0], 0, false)
		if !errors.Is(err, errAttemptsRunning) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reply := n.Do(ctx, []*fsmpb.Command{schedule("after", time.Now())})[0]
		assert.Equal(t, reply.Err, nil)
		c.eventually("another begins", func() bool { return n.attempts.count() == 2 })
	})
}

// TestCaughtUp checks that a replica reports CaughtUp only when it holds all that was acknowledged during its absence.
func TestCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		away := c.others(n.cfg.NodeID)[0]
		c.kill(away)
		for i := range 300 {
			n.must(t, schedule(fmt.Sprintf("t%d", i), time.Now().Add(time.Hour)))
		}
		time.Sleep(time.Minute)
		c.start(away)
		c.eventually("the replica has caught up", c.nodes[away].HasCaughtUp)
		if got := c.nodes[away].Status(); got.Counts.Tasks != 300 || got.Leader != n.cfg.NodeID {
			t.Errorf("%+v", got)
		}
	})
}

// gate is a transport whose outgoing replication the test can hold up. It offers the optional methods that Raft looks
// for in a transport.
type gate struct {
	*raft.InmemTransport

	mu        sync.Mutex
	frozen    chan struct{} // non-nil: heartbeats wait here before they are sent
	answers   chan struct{} // non-nil: the answers to heartbeats wait here
	pace      time.Duration // that a request is on its way
	noEntries bool          // requests with entries fail, heartbeats pass
	held      int           // number of waiting answers
	sent      int           // number of requests
	heartbeat func(raft.RPC)
}

var errGate = errors.New("held up by the test")

func (g *gate) SetHeartbeatHandler(cb func(raft.RPC)) { g.heartbeat = cb }

func (g *gate) AppendEntries(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	g.mu.Lock()
	frozen, answers, noEntries, pace := g.frozen, g.answers, g.noEntries, g.pace
	g.sent++
	if answers != nil && frozen == nil {
		g.held++
	}
	g.mu.Unlock()
	if noEntries && len(req.Entries) > 0 {
		return errGate
	}
	if frozen != nil {
		<-frozen
	}
	if pace > 0 {
		<-time.After(pace)
	}
	err := g.InmemTransport.AppendEntries(id, addr, req, resp)
	if answers != nil && frozen == nil {
		<-answers
	}
	return err
}

// AppendEntriesPipeline returns an error, so that all replication comes through AppendEntries.
func (g *gate) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (g *gate) with(change func(*gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

func (g *gate) stopEntries(stop bool) { g.with(func(g *gate) { g.noEntries = stop }) }

// gates puts a gate before each node's transport and returns the gates by node.
func (c *replicas) gates() map[string]*gate {
	gates := map[string]*gate{}
	c.wire = func(id string, inner *raft.InmemTransport) raft.Transport {
		gates[id] = &gate{InmemTransport: inner}
		return gates[id]
	}
	return gates
}
