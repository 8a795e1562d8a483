package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// AimedKill is the kind of fault that kills a node for its part at a step of a move.
const AimedKill = "kill -9 at a step of a move"

const (
	aimEvery = 20 * time.Millisecond // between two looks at the cluster
	aimFresh = 50 * time.Millisecond // a look that takes longer tells of the past
	aimMade  = 30 * time.Millisecond // that a step takes after its pause
	aimFor   = 5 * time.Second       // that a fault of a striker looks
)

// KillAimed kills a node that plays a wanted part at a step of a move, at a random moment of the step, and starts it
// again after on.Hold. pause is the time that the nodes pause before each step, by BELFRY_STEP_PAUSE. The kill counts
// as a hit, because the cluster said an instant before that the move was at this step. KillAimed returns ErrBusy if ctx
// ends first, or if another fault holds the node.
func KillAimed(ctx context.Context, on Target, aims *Aims, pause time.Duration) error {
	s := &striking{Target: on, kind: AimedKill}
	shot, ok := s.aim(ctx, aims, pause)
	if !ok {
		return ErrBusy
	}
	return s.shoot(ctx, aims, shot)
}

// killAtAnyStep kills a node at any step of a move that it sees.
func (s *striking) killAtAnyStep(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, aimFor)
	defer cancel()
	aims := NewAims(1, slices.Concat(ReplicaAims(), SlotAims(), RetreatAims())...)
	shot, ok := s.aim(looking, aims, 0)
	if !ok {
		return ErrBusy
	}
	return s.shoot(ctx, aims, shot)
}

// aim waits for a wanted shot, then for a random moment of the step, and returns a shot of that moment.
func (s *striking) aim(ctx context.Context, aims *Aims, pause time.Duration) (shot, bool) {
	for {
		if len(s.look(ctx, aims)) > 0 {
			Wait(ctx, time.Duration(s.Rand.Int64N(int64(pause+aimMade))))
			if shots := s.look(ctx, aims); len(shots) > 0 {
				return pick(s.Rand, shots), true
			}
		}
		if !Wait(ctx, aimEvery) {
			return shot{}, false
		}
	}
}

// look returns the wanted shots of this moment.
func (s *striking) look(ctx context.Context, aims *Aims) []shot {
	began := time.Now()
	view, err := s.Stand.View(ctx)
	if err != nil || time.Since(began) > aimFresh {
		return nil // no node answers at the moment, or not soon enough
	}
	return aims.shots(view)
}

// shoot kills the node of a shot.
func (s *striking) shoot(ctx context.Context, aims *Aims, shot shot) error {
	node := []string{shot.node}
	release, err := s.claim(node)
	if err != nil {
		return err
	}
	defer release()
	fault := s.Recorder.Strike(history.Fault{
		Kind: AimedKill, Nodes: node, Shards: shot.led, Restarted: true,
		Detail: fmt.Sprintf("%s (%s), dead for %v", shot.Aim, shot.what, s.Hold.Round(time.Millisecond)),
	})
	if err := s.Stand.Kill(node...); err != nil {
		return err
	}
	aims.hit(shot.Aim)
	Wait(ctx, s.Hold)
	s.Recorder.Mending(fault)
	return s.start(fault, node)
}
