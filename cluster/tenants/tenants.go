package tenants

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/task"
)

// Config holds this node's data folder and its replica of the control group.
type Config struct {
	Dir      string // data folder
	Identity Identity
	Control  *control.Replica
	Tasks    Tasks
	Logger   *slog.Logger // nil: none
}

// Identity returns the id of the node's cluster, or "" if the node is in none yet.
type Identity interface{ ClusterID() string }

// Tasks counts the tasks in a namespace.
type Tasks interface {
	Count(ctx context.Context, namespace string) (uint64, error)
}

// Tenants is the keys and namespaces of the cluster. Its methods are safe for concurrent use.
type Tenants struct {
	cfg    Config
	path   string
	roster atomic.Pointer[roster] // newest known one; never nil

	mu      sync.Mutex
	changed chan struct{} // closed when there is a newer roster
}

// New returns the keys and namespaces that the node knew last. Run keeps them up to date.
func New(cfg Config) *Tenants {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Tenants{cfg: cfg, path: filepath.Join(cfg.Dir, fileName), changed: make(chan struct{})}
	t.roster.Store(newRoster(nil, nil))
	known, err := read(t.path, cfg.Identity.ClusterID())
	switch {
	case err != nil:
		cfg.Logger.Warn("the file of known keys cannot be read; calls wait until the node has caught up",
			"file", t.path, "err", err)
	case known != nil:
		t.roster.Store(newRoster(known, nil))
	}
	return t
}

// Run follows the control group's state until ctx ends. The node must be in a cluster.
func (t *Tenants) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { t.report(ctx) })
	for failing := false; ctx.Err() == nil; {
		state, changed := t.cfg.Control.Watch()
		if t.cfg.Control.IsCurrent(state) || t.isKnown() && state.AccessVersion > t.roster.Load().state.AccessVersion {
			failing = t.learn(state, failing)
		}
		var again <-chan time.Time
		if failing {
			again = time.After(retryAfter)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
		}
	}
}

func (t *Tenants) isKnown() bool { return t.roster.Load().state != nil }

// learn makes a roster of a state that has news, and writes it to the file. It reports whether the file is behind.
func (t *Tenants) learn(state *clusterpb.ControlState, behind bool) (failing bool) {
	old := t.roster.Load()
	news := old.state == nil || old.state.AccessVersion != state.AccessVersion
	if news {
		t.roster.Store(newRoster(known(state), old))
		t.mu.Lock()
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
	}
	if !news && !behind {
		return false
	}
	err := write(t.path, t.cfg.Identity.ClusterID(), t.roster.Load().state)
	if err != nil && !behind {
		t.cfg.Logger.Warn("the file of known keys cannot be written; the node goes on and tries again",
			"file", t.path, "err", err)
	}
	return err != nil
}

// Await waits until this node knows a version of the keys and namespaces.
func (t *Tenants) Await(ctx context.Context, version uint64) error {
	for {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		if r := t.roster.Load(); r.state != nil && r.state.AccessVersion >= version {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// change has the leader of the control group commit an entry, and waits until the change is known. The error is a
// *task.ImpossibleError if the state does not allow the change.
func (t *Tenants) change(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	ctx, cancel := control.Within(ctx)
	defer cancel()
	changed, err := t.cfg.Control.Change(ctx, &clusterpb.ControlChange{Entry: entry})
	if err != nil {
		return nil, err
	}
	if err := t.Await(ctx, changed.AccessVersion); err != nil {
		return nil, fmt.Errorf("%w: the change is committed, and this node has not heard of it yet: %w", task.ErrUnknown, err)
	}
	return changed, nil
}
