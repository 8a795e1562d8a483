package faults

import (
	"context"
	"slices"
	"time"
)

// KillOrphaned is the kind of fault that separates a leader's proposals from committed entries.
const KillOrphaned = "kill -9 of a leader whose followers are dead"

// orphaned is how long the leader lives on without followers: less than a lease, so that it still believes that it
// leads.
const orphaned = 250 * time.Millisecond

// killOrphaned kills all nodes but the leader of a shard, then the leader, and starts the others again. No other node
// knows the leader's proposals from between. Pausing the followers would not do: the system would still receive the
// proposals for them.
func (s *striking) killOrphaned(ctx context.Context) error {
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
	Wait(ctx, orphaned)
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
