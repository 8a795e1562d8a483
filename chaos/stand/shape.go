package stand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

// ErrNoSpare means that all nodes of the stand are in the cluster.
var ErrNoSpare = errors.New("the stand has no nodes beside those that form the cluster: --spare adds some")

// Shapes returns ErrNoSpare if the cluster's shape cannot change.
func (s *Stand) Shapes() error {
	if !s.changes {
		return ErrNoSpare
	}
	return nil
}

// Spare returns the nodes that are not in the cluster.
func (s *Stand) Spare() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.spare)
}

// Join starts a spare node with an empty data folder, so that it joins the cluster. It does not wait for that.
func (s *Stand) Join(node string) error {
	if err := s.Cluster.Launch(node); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = slices.DeleteFunc(s.spare, func(n string) bool { return n == node })
	return nil
}

// Retire kills a node and deletes its data. The node is spare then, even if the cluster still counts on it.
func (s *Stand) Retire(node string) error {
	if err := errors.Join(s.Kill(node), s.Cluster.Erase(node)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, node)
	return nil
}

// ID returns the id of the newest node of that name that the cluster knows, or "" if it knows none.
func (s *Stand) ID(ctx context.Context, name string) (string, error) {
	view, err := s.View(ctx)
	if err != nil {
		return "", err
	}
	id := ""
	for _, n := range view.Nodes {
		if n.Name == name && (id == "" || n.Alive) {
			id = n.ID
		}
	}
	return id, nil
}

const operationPoll = 200 * time.Millisecond

// Operate begins an operation and waits until it has ended. It tries again while no node can begin it, and while the
// operation is impossible: another fault may keep nodes away. The error names the
// last obstacle if ctx ends first.
func (s *Stand) Operate(ctx context.Context, ask client.OperationRequest) error {
	key := fmt.Sprintf("%s-%s-%d-%d", ask.Kind, ask.Node, ask.Replication, time.Now().UnixNano())
	var op *client.Operation
	var err error
	for {
		if op == nil {
			op, err = s.client.Begin(ctx, ask, client.WithKey(key))
		} else {
			var now *client.Operation
			if now, err = s.client.Operation(ctx, op.ID); err == nil {
				op = now
			}
		}
		switch {
		case err == nil && op.State == client.OperationDone:
			return nil
		case err == nil && op.State == client.OperationStopped:
			return fmt.Errorf("%s of %s was stopped: %s", ask.Kind, ask.Node, op.Detail)
		}
		if !wait.For(ctx, operationPoll) {
			return fmt.Errorf("%s %s: %w; the operation: %+v", ask.Kind, ask.Node, errors.Join(ctx.Err(), err), op)
		}
	}
}

// AwaitMoves waits until no shard is on its way to other nodes, and each of the given nodes holds a replica.
func (s *Stand) AwaitMoves(ctx context.Context, holders ...string) error {
	return s.await(ctx, "the cluster has not its shape", func(v *client.Cluster) string { return moving(v, holders) })
}

// await waits until reason returns "" for a view of the cluster. The error begins with failure and ends with the last
// reason.
func (s *Stand) await(ctx context.Context, failure string, reason func(*client.Cluster) string) error {
	for {
		waits := "no node answers"
		if view, err := s.View(ctx); err == nil {
			waits = reason(view)
		}
		if waits == "" {
			return nil
		}
		if !wait.For(ctx, operationPoll) {
			return fmt.Errorf("%s: %w; %s", failure, ctx.Err(), waits)
		}
	}
}

// moving returns a reason why the cluster has not its shape, or "".
func moving(view *client.Cluster, holders []string) string {
	for _, h := range holders {
		holds := func(r client.Replica) bool { n := view.Node(r.Node); return n != nil && n.Name == h && n.Alive }
		if !slices.ContainsFunc(view.Shards, func(s client.Shard) bool { return slices.ContainsFunc(s.Replicas, holds) }) {
			return h + " holds no replica"
		}
	}
	for _, sh := range view.Shards {
		if len(sh.Target) > 0 {
			return fmt.Sprintf("shard %d is on its way to %v: %s", sh.ID, sh.Target, sh.Waits)
		}
	}
	return view.Waits
}

// ErrOneBuild means that the stand has no other build of belfry.
var ErrOneBuild = errors.New("the nodes have no other build of belfry: --faults upgrade, or --for 10m and all " +
	"faults, gives them one")

// HasOther returns ErrOneBuild if nodes cannot change to another build.
func (s *Stand) HasOther() error {
	if s.other.Binary == "" {
		return ErrOneBuild
	}
	return nil
}

// Change stops a node in order, and starts it with the other build, or with its own one again. It does not wait until
// the node is ready. A node that does not run is only started.
func (s *Stand) Change(node string, toOther bool) error {
	build := s.own
	if toOther {
		build = s.other
	}
	if err := errors.Join(s.Terminate(node), s.Cluster.UseBuild(node, build)); err != nil {
		return err
	}
	s.note(node, toOther)
	return s.Start(node)
}

func (s *Stand) note(node string, other bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = slices.DeleteFunc(s.strays, func(n string) bool { return n == node })
	if other {
		s.strays = append(s.strays, node)
	}
}

// Strays returns the nodes that run the other build.
func (s *Stand) Strays() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.strays)
}

// changeBack gives all nodes their own build again.
func (s *Stand) changeBack() error {
	var errs []error
	for _, node := range s.Strays() {
		errs = append(errs, s.Change(node, false))
	}
	return errors.Join(errs...)
}
