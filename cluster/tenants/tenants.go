package tenants

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/fsm/task"
)

// Config holds this node's replica of the control group, and the ways to the other nodes.
type Config struct {
	Self    string        // node id
	Dir     string        // data folder
	Cluster func() string // id of the node's cluster; empty: it is in none yet
	Control *control.Replica
	Node    func(node string) calls.Node           // changes keys and namespaces at another node
	Peer    func(node string) clusterpb.PeerClient // asks another node
	Alive   func(node string) bool                 // reports whether a node seems alive
	// Count returns the number of tasks in a namespace.
	Count  func(ctx context.Context, namespace string) (uint64, error)
	Logger *slog.Logger // nil: none
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
	known, err := read(t.path, cfg.Cluster())
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
	err := write(t.path, t.cfg.Cluster(), t.roster.Load().state)
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

// Patience is the longest wait until all nodes know a committed change.
const Patience = time.Second

// changePatience bounds a change whose context has no deadline.
const changePatience = 10 * time.Second

// change carries out a change through the control group's leader, and waits until it is known. It may ask several
// nodes, since a repeated change has no further effect. The error is a *control.ImpossibleError if the state does not
// allow the change.
func (t *Tenants) change(ctx context.Context, change *clusterpb.AccessChange) (*clusterpb.AccessChanged, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, changePatience)
		defer cancel()
	}
	existed, unsure := t.exists(change), false
	for search := t.cfg.Control.Search(); ; {
		changed, err := t.changeAt(ctx, search.Next(), change)
		switch {
		case err == nil && changed.Impossible != "":
			return nil, &control.ImpossibleError{Reason: changed.Impossible}
		case err == nil:
			if unsure && existed != nil {
				changed.Existed = *existed
			}
			return changed, t.awaitEverywhere(ctx, changed.Version)
		case errors.Is(err, task.ErrUnknown):
			unsure = true
		case !leaders.Repeatable(err):
			return nil, err
		}
		if err := search.Again(ctx, err); err != nil {
			return nil, err
		}
	}
}

// exists reports whether there is the namespace that a change makes, or the key that it removes, as far as this node
// knows. It returns nil for other changes. A repetition cannot tell after an attempt of unknown outcome, which may have
// done its work: it finds the namespace there and the key gone.
func (t *Tenants) exists(change *clusterpb.AccessChange) *bool {
	var exists bool
	switch op := change.GetOp().(type) {
	case *clusterpb.AccessChange_SetNamespace:
		_, exists = t.Namespace(op.SetNamespace.GetNamespace().GetName())
	case *clusterpb.AccessChange_RemoveKey:
		_, exists = t.Key(op.RemoveKey.GetId())
	default:
		return nil
	}
	return &exists
}

// changeAt asks a node to commit the change. The node does so if it leads the control group.
func (t *Tenants) changeAt(
	ctx context.Context, node string, change *clusterpb.AccessChange,
) (*clusterpb.AccessChanged, error) {
	if node == t.cfg.Self {
		return t.cfg.Control.ChangeAccess(ctx, change)
	}
	return t.cfg.Node(node).ChangeAccess(ctx, change)
}

// awaitEverywhere waits until this node knows a committed version, and up to a second for the others that seem alive.
func (t *Tenants) awaitEverywhere(ctx context.Context, version uint64) error {
	var asking sync.WaitGroup
	soon, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for _, node := range t.cfg.Control.State().Nodes {
		if node.Id == t.cfg.Self || !t.cfg.Alive(node.Id) {
			continue
		}
		asking.Go(func() {
			if err := t.AwaitAt(soon, node.Id, version); err != nil {
				t.cfg.Logger.Debug("a node did not say that it knows a change of keys", "node", node.Id, "err", err)
			}
		})
	}
	asking.Wait()
	if err := t.Await(ctx, version); err != nil {
		return fmt.Errorf("%w: the change is committed, and this node has not heard of it yet: %w", task.ErrUnknown, err)
	}
	return nil
}

// AwaitAt waits until a node knows a version of the keys and namespaces.
func (t *Tenants) AwaitAt(ctx context.Context, node string, version uint64) error {
	if node == t.cfg.Self {
		return t.Await(ctx, version)
	}
	_, err := t.cfg.Peer(node).AwaitAccess(ctx, &clusterpb.AwaitAccessRequest{Version: version})
	return err
}
