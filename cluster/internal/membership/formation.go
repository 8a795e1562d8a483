package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// promiseRecord is the node's durable memory. *Identity implements it.
type promiseRecord interface {
	NodeID() string
	ClusterID() string
	Promised() (Promise, bool)
	Give(Promise) error
	Enter(clusterID string) error
	EnterInstead(clusterID string) error
}

const (
	settle = 500 * time.Millisecond // for which the list stays the same before it is proposed
	retry  = time.Second            // between two steps
)

// formationConfig holds the node's record and plan, and the calls to other nodes.
type formationConfig struct {
	Record promiseRecord
	Expect int // nodes to form a cluster with, this one included; 0: join an existing one
	Nodes  otherNodes
	Logger *slog.Logger
}

// otherNodes are the nodes with which a cluster may be formed. *Member implements it.
type otherNodes interface {
	// watch returns the nodes that gossip shows, this one included, and a channel that is closed when they change.
	watch() ([]*clusterpb.GossipMeta, <-chan struct{})
	// askPromise asks a node for its promise.
	askPromise(ctx context.Context, node string, p Promise) (*clusterpb.PromiseReply, error)
	// registerThrough registers this node with the cluster of another node, and returns the cluster's id.
	registerThrough(ctx context.Context, node string) (clusterID string, err error)
}

// form returns when the node is in a cluster, whose id is then in the record. It returns an error only if ctx ends or
// the record cannot be written.
func form(ctx context.Context, cfg formationConfig) error {
	f := &formation{formationConfig: cfg}
	for cfg.Record.ClusterID() == "" {
		members, changed := cfg.Nodes.watch()
		wait, err := f.step(ctx, members)
		if err != nil {
			return err
		}
		if cfg.Record.ClusterID() != "" {
			break
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

type formation struct {
	formationConfig
	list  []string // the last list, unchanged since since
	since time.Time
	void  bool // the promise given can never be kept
}

// step takes the next possible step, and returns the pause before another one.
func (f *formation) step(ctx context.Context, members []*clusterpb.GossipMeta) (time.Duration, error) {
	promise, promised := f.Record.Promised()
	switch {
	case promised && !f.void:
		return retry, f.keep(ctx, promise)
	case inCluster(members) != nil:
		return retry, f.join(ctx, members)
	case promised:
		f.Logger.Error("this node has promised itself to a cluster that can no longer be formed, and sees no other one; "+
			"if there is none to join, empty the data folder: nothing is stored in it yet", "promise", promise)
		return retry, nil
	case f.Expect == 0:
		f.Logger.Debug("no cluster to join is in sight yet")
		return retry, nil
	}
	return f.propose(members)
}

func inCluster(members []*clusterpb.GossipMeta) *clusterpb.GossipMeta {
	for _, m := range members {
		if m.ClusterId != "" {
			return m
		}
	}
	return nil
}

// propose lists the nodes that expect as many nodes as this one. If the list is complete and stable, and this node's id
// is the lowest, it gives this node's own promise first.
func (f *formation) propose(members []*clusterpb.GossipMeta) (time.Duration, error) {
	var list []string
	for _, m := range members {
		if m.ClusterId == "" && int(m.BootstrapExpect) == f.Expect {
			list = append(list, m.Id)
		}
	}
	slices.Sort(list)
	list = list[:min(len(list), f.Expect)]
	if !slices.Equal(list, f.list) {
		f.list, f.since = list, time.Now()
		f.Logger.Info("forming a cluster", "expected", f.Expect, "seen", list)
	}
	settling := settle - time.Since(f.since)
	if f.Expect == 1 {
		settling = 0 // there is no other node to wait for
	}
	switch {
	case len(list) < f.Expect || list[0] != f.Record.NodeID():
		return retry, nil
	case settling > 0:
		return settling, nil
	}
	err := f.Record.Give(Promise{ClusterID: NewID(), Nodes: list})
	if errors.Is(err, errPromised) {
		return 0, nil // another proposer has asked meanwhile; step keeps that promise
	}
	return 0, err
}

// keep fulfils the promise, or finds that it is void. It asks the nodes themselves, since any sender may announce a
// cluster by gossip.
func (f *formation) keep(ctx context.Context, p Promise) error {
	all := true
	for _, node := range p.Nodes {
		if node == f.Record.NodeID() {
			continue
		}
		reply, err := f.ask(ctx, node, p)
		if err != nil {
			f.Logger.Info("a node of the list does not answer yet", "node", node, "err", err)
			all = false
			continue
		}
		if reply.Member && reply.Promised {
			return f.Record.Enter(p.ClusterID) // all have promised, or the cluster would not exist
		}
		if !reply.Promised {
			f.void = true
			f.Logger.Warn("a node of the list belongs elsewhere: this cluster cannot be formed",
				"node", node, "its_cluster", reply.ClusterId, "its_list", reply.Nodes, "promise", p)
			return nil
		}
	}
	if all && p.Nodes[0] == f.Record.NodeID() {
		return f.Record.Enter(p.ClusterID)
	}
	return nil
}

func (f *formation) ask(ctx context.Context, node string, p Promise) (*clusterpb.PromiseReply, error) {
	ctx, cancel := context.WithTimeout(ctx, retry)
	defer cancel()
	return f.Nodes.askPromise(ctx, node, p)
}

// join asks the nodes that are in a cluster, one after the other, to register this one.
func (f *formation) join(ctx context.Context, members []*clusterpb.GossipMeta) error {
	for _, m := range members {
		if m.ClusterId == "" {
			continue
		}
		id, err := f.register(ctx, m.Id)
		if err != nil {
			f.Logger.Info("a node of the cluster did not let this one in yet", "node", m.Id, "err", err)
			continue
		}
		f.Logger.Info("joined a cluster", "cluster", id, "through", m.Id)
		if f.void {
			return f.Record.EnterInstead(id)
		}
		err = f.Record.Enter(id)
		if errors.Is(err, errPromised) {
			return nil // another node was given a promise meanwhile; step keeps it first
		}
		return err
	}
	return nil
}

func (f *formation) register(ctx context.Context, node string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*retry)
	defer cancel()
	id, err := f.Nodes.registerThrough(ctx, node)
	if err == nil && id == "" {
		err = fmt.Errorf("node %s is in no cluster", node)
	}
	return id, err
}

// AnswerPromise answers another node's request for a promise. expect is Config.Expect: a node that was told to join
// never promises.
func AnswerPromise(r promiseRecord, expect int, p Promise) (*clusterpb.PromiseReply, error) {
	if id := r.ClusterID(); id != "" {
		return &clusterpb.PromiseReply{Promised: id == p.ClusterID, ClusterId: id, Member: true}, nil
	}
	if expect == 0 {
		return &clusterpb.PromiseReply{}, nil
	}
	err := r.Give(p)
	if errors.Is(err, errPromised) {
		given, _ := r.Promised()
		return &clusterpb.PromiseReply{ClusterId: given.ClusterID, Nodes: given.Nodes}, nil
	}
	if err != nil {
		return nil, err
	}
	return &clusterpb.PromiseReply{Promised: true, ClusterId: p.ClusterID, Nodes: p.Nodes}, nil
}
