package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/raftgroup/install"
	"github.com/belfryhq/belfry/raftgroup/internal/logcache"
	"github.com/belfryhq/belfry/raftgroup/raftlog"
)

// raftNever is longer than any process runs.
const raftNever = 365 * 24 * time.Hour

// ErrNoState is the error of Open if the node has held this group before and its data is gone.
var ErrNoState = errors.New("the group's data is gone: remove this replica and let it join again")

// Group is this node's replica of one Raft group.
type Group struct {
	cfg       Config
	applier   *applier
	raft      *raft.Raft
	contacts  *contacts
	metronome *metronome
	tuning    *tuning
	watch     *watch
	futures   *futures
	gate      *install.Gate
	copying   copying

	ctx     context.Context // ends the background workers
	cancel  context.CancelFunc
	workers sync.WaitGroup

	proposing *semaphore.Weighted // a part of it is held while Raft accepts an entry of Propose, all during a HandOver
	changing  chan struct{}       // capacity 1: holds a value until Raft has answered a change of membership
	reign     reign               // newest one that was asked about; used by the holder of changing
	opened    atomic.Bool         // Raft runs
	stopping  atomic.Bool         // Raft is being shut down
	fatalOnce sync.Once
}

// Open starts the replica from its storage. If the storage is empty and Config.Existing is not set, it starts a new
// group of Config.Voters. Leaderships wait until Lead is called. Nothing runs after an error, and the caller must close
// the storage and the transport.
func Open(cfg Config) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Group{
		cfg: cfg, contacts: newContacts(), tuning: newTuning(cfg), futures: newFutures(),
		copying:   copying{holds: make(map[string]*hold)},
		proposing: semaphore.NewWeighted(maxProposing), changing: make(chan struct{}, 1), ctx: ctx, cancel: cancel,
	}
	g.metronome = &metronome{beat: cfg.Timing.Beat, send: g.beat}
	g.applier = newApplier(ctx, cfg, g.fatal)
	g.watch = newWatch(g.futures.down, g.Leads)
	transport, base, err := g.openRaft()
	if err != nil {
		cancel()
		return nil, err
	}
	g.opened.Store(true)
	g.workers.Go(g.watch.listen)
	g.workers.Go(func() { g.replay(base) })
	g.workers.Go(func() { g.stand(transport) })
	g.observeLeaders()
	return g, nil
}

// openRaft bootstraps a new group and starts Raft. It returns Raft's transport, and the last index in the
// state that Raft started from.
func (g *Group) openRaft() (_ raft.Transport, base uint64, _ error) {
	storage := g.cfg.Storage
	if disk, ok := storage.(failing); ok {
		disk.OnFatal(g.fatal)
	}
	log := storage.Log()
	if g.cfg.LogCache > 0 {
		log = logcache.New(log, g.cfg.LogCache)
	}
	g.gate = install.New(g.cfg.Transport, log, g.cfg.Logger, func(err error) {
		g.fatal(fmt.Errorf("%s on node %s: %w", g.cfg.Name, g.cfg.NodeID, err))
	})
	g.gate.Remember(g.cfg.Applied)
	transport := transport{
		contacts: g.contacts, metronome: g.metronome, holdBack: g.holdBack, leadsIn: g.goesOnIn, lacks: g.lacks,
		copy: g.sendCopy,
	}.wrap(g.gate.Transport())
	if err := g.bootstrap(log, transport); err != nil {
		return nil, 0, err
	}
	var err error
	g.raft, err = raft.NewRaft(g.raftConfig(), g.applier, log, storage.Stable(), storage.Snapshots(), transport)
	if err != nil {
		return nil, 0, err
	}
	base = g.stat("last_snapshot_index")
	g.applier.beginReplay(base)
	g.gate.Open(g.raft)
	return transport, base, nil
}

// bootstrap writes the configuration of a new group. Every voter of the group writes the same one.
func (g *Group) bootstrap(log raft.LogStore, transport raft.Transport) error {
	storage := g.cfg.Storage
	hasState, err := raft.HasExistingState(log, storage.Stable(), storage.Snapshots())
	switch {
	case err != nil:
		return err
	case hasState:
		return nil
	case g.cfg.Existing && !hasRun(storage.Stable()):
		return ErrNoState
	case g.cfg.Existing:
		return nil // a joining replica that no leader has reached yet
	case len(g.cfg.Voters) == 0:
		return nil // a joining replica: the leader sends it everything
	}
	servers := make([]raft.Server, len(g.cfg.Voters))
	for i, id := range g.cfg.Voters {
		servers[i] = raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)}
	}
	err = raft.BootstrapCluster(g.raftConfig(), log, storage.Stable(), storage.Snapshots(), transport,
		raft.Configuration{Servers: servers})
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// hasRun reports whether Raft has run on the store. It writes its term when it starts, also the term 0 of one that
// has heard of no other.
func hasRun(stable raft.StableStore) bool {
	_, err := stable.GetUint64([]byte("CurrentTerm"))
	return err == nil
}

func (g *Group) raftConfig() *raft.Config {
	c, timing, snapshots := raft.DefaultConfig(), g.cfg.Timing, g.cfg.Snapshots
	c.LocalID = raft.ServerID(g.cfg.NodeID)
	c.Logger = raftlog.New(g.cfg.Logger)
	c.NotifyCh = g.watch.notify
	c.NoLegacyTelemetry = true
	c.HeartbeatTimeout, c.ElectionTimeout = g.tuning.timeouts()
	c.LeaderLeaseTimeout, c.CommitTimeout = timing.Lease, timing.Commit
	c.TrailingLogs = snapshots.Tail
	c.SnapshotThreshold = snapshots.Entries
	if snapshots.Entries == 0 {
		c.SnapshotThreshold, c.SnapshotInterval = math.MaxUint64, raftNever // see Snapshot
	}
	if g.cfg.MaxAppend > 0 {
		c.MaxAppendEntries = g.cfg.MaxAppend
	}
	c.ShutdownOnRemove = false
	return c
}

// Lead calls run for each leadership of this node, one at a time; see the package's documentation. It is called once,
// after Open.
func (g *Group) Lead(run func(ctx context.Context)) {
	g.workers.Go(func() {
		g.watch.run(func(ctx context.Context) { g.lead(ctx, run) })
	})
}

// beat requests heartbeats to all other nodes; only a leader sends them. The answer is dropped, so the call needs no
// futures.
func (g *Group) beat() {
	if g.opened.Load() {
		g.raft.VerifyLeader()
	}
}

// observeLeaders passes each change of leader to the owner.
func (g *Group) observeLeaders() {
	if g.cfg.Owner == nil {
		return
	}
	news := make(chan raft.Observation, 16)
	observer := raft.NewObserver(news, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	g.raft.RegisterObserver(observer)
	g.workers.Go(func() {
		defer g.raft.DeregisterObserver(observer)
		for {
			select {
			case <-g.ctx.Done():
				return
			case <-news:
				g.cfg.Owner.OnLeader(g.Leader())
			}
		}
	})
}

// fatal reports the first error that the group cannot survive, and stops the group.
func (g *Group) fatal(err error) {
	g.fatalOnce.Do(func() {
		g.cfg.Logger.Error("the group cannot go on", "err", err)
		if g.opened.Load() {
			go g.shutDown()
		}
		g.cfg.Fatal(err)
	})
}

// shutDown stops Raft and closes the transport. A second caller also waits until both are done.
func (g *Group) shutDown() {
	if g.stopping.CompareAndSwap(false, true) {
		g.gate.Interrupt()
		if g.cfg.Owner != nil {
			g.cfg.Owner.Quiesce()
		}
		if !g.futures.bar(2 * g.cfg.Timing.Election) { // by then Raft has answered, or has lost its leadership
			g.cfg.Logger.Info("raft has not answered everything when the replica stopped")
		}
		if err := g.raft.Shutdown().Error(); err != nil {
			g.cfg.Logger.Warn("raft did not shut down cleanly", "err", err)
		}
		close(g.futures.down)
	}
	<-g.futures.down
}

// Close stops the replica, waits for the last leadership to end, and closes the transport and the storage. It does not
// transfer the leadership: see Transfer. It is called once.
func (g *Group) Close() error {
	g.cancel()
	g.shutDown()
	g.workers.Wait()
	return g.cfg.Storage.Close()
}
