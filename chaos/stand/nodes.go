package stand

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A node may die by itself at any instant. The methods below therefore skip a node that does not run, without an error.

// Runs reports whether a node's process exists, even if it is paused.
func (s *Stand) Runs(name string) bool {
	for _, n := range s.Cluster.Nodes() {
		if n.Name == name {
			return n.PID != 0
		}
	}
	return false
}

// URLs returns the addresses of the HTTP interfaces of nodes; of all nodes in the cluster if none is named.
func (s *Stand) URLs(nodes ...string) []string {
	if len(nodes) == 0 {
		nodes = s.Names()
	}
	var urls []string
	for _, n := range s.Cluster.Nodes() {
		if slices.Contains(nodes, n.Name) {
			urls = append(urls, "http://"+n.HTTPAddr)
		}
	}
	return urls
}

// Data returns the data folder of a node.
func (s *Stand) Data(node string) string {
	for _, n := range s.Cluster.Nodes() {
		if n.Name == node {
			return n.Data
		}
	}
	panic("stand: there is no node " + node)
}

// Down returns the nodes that do not run.
func (s *Stand) Down() []string {
	return slices.DeleteFunc(s.Names(), s.Runs)
}

// Kill kills nodes with SIGKILL, all at once, and returns when they are gone.
func (s *Stand) Kill(names ...string) error { return s.running(names, s.Cluster.Kill) }

// Terminate asks nodes with SIGTERM to stop, all at once, and returns when they have stopped.
func (s *Stand) Terminate(names ...string) error { return s.running(names, s.Cluster.Terminate) }

// Pause suspends nodes with SIGSTOP.
func (s *Stand) Pause(names ...string) error { return s.running(names, s.Cluster.Pause) }

// Resume lets paused nodes go on.
func (s *Stand) Resume(names ...string) error { return s.running(names, s.Cluster.Resume) }

// running calls do for those of the nodes that run.
func (s *Stand) running(names []string, do func(name string) error) error {
	return Together(names, func(name string) error {
		err := do(name)
		if err != nil && !s.Runs(name) {
			return nil
		}
		return err
	})
}

// Start starts those of the nodes that do not run. It does not wait until they are ready, because a fault may prevent
// that.
func (s *Stand) Start(names ...string) error {
	return Together(names, func(name string) error {
		if s.Runs(name) {
			return nil
		}
		return s.Cluster.Launch(name)
	})
}

// AwaitReady waits until nodes are ready, at most for the given time. The error names the nodes that are not.
func (s *Stand) AwaitReady(ctx context.Context, most time.Duration, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return Together(names, func(name string) error { return s.Cluster.AwaitReady(ctx, name) })
}

// Together calls do for all nodes at once, and joins the errors.
func Together(names []string, do func(name string) error) error {
	failed := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { failed[i] = do(name) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// Heal makes the stage whole again, gives all nodes their own build, and starts the nodes that do not run. It does not
// wait until they are ready.
func (s *Stand) Heal() error {
	var errs []error
	if s.Network != nil {
		errs = append(errs, s.Network.Heal())
	}
	for _, d := range s.Disks {
		d.Heal()
	}
	for _, c := range s.Clocks {
		c.Set(0)
	}
	for _, g := range s.Gossip {
		g.Set(0)
	}
	for _, m := range s.Memories {
		errs = append(errs, m.Release())
	}
	return errors.Join(append(errs, s.Resume(s.Names()...), s.changeBack(), s.Start(s.Names()...))...)
}
