package stand

import (
	"errors"
	"slices"
)

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
