package faults

import (
	"context"
	"slices"
	"time"
)

// KillForlorn is the kind of fault that parts what a leader has proposed from what is committed.
const KillForlorn = "kill -9 of a leader whose followers are dead"

// forlorn is how long the leader has: less than a lease, in which it still believes that all is well.
const forlorn = 250 * time.Millisecond

// killForlorn kills all nodes but the leader of a shard, then that one, and starts the others again: what it had
// proposed in between, nobody knows of. (Of nodes that are only stopped, the system takes what is sent to them.)
func (s *striking) killForlorn(ctx context.Context) error {
	leader := s.leader(ctx)
	if len(leader) == 0 {
		return ErrBusy
	}
	all := s.Stand.Names()
	release, err := s.claim(all)
	if err != nil {
		return err
	}
	defer release()
	others := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == leader[0] })
	fault := s.strikeDead(ctx, all, "%s the last one, dead for %v", leader[0], s.Hold.Round(time.Millisecond))
	if err := s.Stand.Kill(others...); err != nil {
		return err
	}
	Wait(ctx, forlorn)
	if err := s.Stand.Kill(leader...); err != nil {
		return err
	}
	if err := s.Stand.Start(others...); err != nil {
		return err
	}
	Wait(ctx, s.Hold)
	s.Recorder.Mending(fault)
	return s.start(fault, leader)
}
