package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/chaos/stand"
)

const outOfMemory = "out of memory"

// memoryKinds returns the kind that takes memory from nodes until the kernel kills them.
func memoryKinds() []Kind {
	return []Kind{{
		Name: outOfMemory, Group: "memory", Weight: 3, Deadly: true, Needs: needsMemory,
		Strike: func(ctx context.Context, on Target) error {
			s := &striking{Target: on, kind: outOfMemory}
			return s.squeeze(ctx, s.some(1))
		},
	}}
}

func needsMemory(s *stand.Stand) error {
	if s.Memories == nil {
		return errors.New("the nodes' memory cannot be bounded")
	}
	return nil
}

// mostMemory is the most memory that is left to a node: little more than it takes and gives back all the time.
const mostMemory = 4 << 20

// squeeze leaves nodes so little memory that the kernel kills them sooner or later, in the middle of any work.
func (s *striking) squeeze(ctx context.Context, nodes []string) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	room := s.Rand.Int64N(mostMemory)
	fault := s.strike(ctx, nodes, "%d KiB left for %v", room>>10, s.Hold)
	var failed []error
	for _, n := range nodes {
		failed = append(failed, s.Stand.Memories[n].Squeeze(room))
	}
	Wait(ctx, s.Hold)
	s.Recorder.Mending(fault)
	for _, n := range nodes {
		failed = append(failed, s.Stand.Memories[n].Release())
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("bounding memory: %w", err)
	}
	return s.start(fault, nodes)
}
