package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard"
)

// Moves reaches the source of a move, wherever its leader is.
type Moves interface {
	// ReadSlots returns a batch of tasks in slots that move away.
	ReadSlots(ctx context.Context, shard uint32, ask *clusterpb.ReadSlotsCall) (*clusterpb.SlotsBatch, error)
	// Step commits a command of a move. The error wraps shard.ErrMoveRefused if the shard's state does not allow it.
	Step(ctx context.Context, shard uint32, c *fsmpb.Command) (more bool, err error)
}

// readSlots returns a batch of tasks in slots that move away from the replica's shard.
func readSlots(ctx context.Context, s *shard.Shard, ask *clusterpb.ReadSlotsCall) (*clusterpb.SlotsBatch, error) {
	b, err := s.ReadSlots(ctx, shard.SlotsRequest{
		Move: ask.Move, Ranges: rangesOf(ask.Ranges), Session: ask.Session, Batch: ask.Batch,
	})
	return &clusterpb.SlotsBatch{
		Session: b.Session, Tasks: b.Tasks, Gone: b.Gone, Copied: b.Copied, Left: uint32(b.Left), Ready: b.Ready,
	}, err
}

// errPause ends the time of a PullSlots.
var errPause = errors.New("the copy goes on at the next call")

// pullSlots goes on with the copy of slots that the replica's shard expects.
func (s *Set) pullSlots(
	ctx context.Context, replica *shard.Shard, ask *clusterpb.PullSlotsCall,
) (*clusterpb.SlotsProgress, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(ask.ForMs)*time.Millisecond, errPause)
	defer cancel()
	p, err := replica.PullSlots(ctx, s.pullOf(replica.ID(), ask))
	if err != nil && !errors.Is(context.Cause(ctx), errPause) {
		return nil, fmt.Errorf("move %d to shard %d: %w", ask.Move, replica.ID(), err)
	}
	return &clusterpb.SlotsProgress{
		Tasks: p.Tasks, Bytes: p.Bytes, Copied: p.Copied, Left: uint32(p.Left), Sealed: p.Sealed, Ready: p.Ready,
	}, nil
}

func (s *Set) pullOf(id uint32, ask *clusterpb.PullSlotsCall) shard.PullSlots {
	pull := shard.PullSlots{
		Move: ask.Move, Ranges: rangesOf(ask.Ranges),
		Read: func(ctx context.Context, r shard.SlotsRequest) (shard.SlotsBatch, error) {
			b, err := s.cfg.Moves.ReadSlots(ctx, ask.From, &clusterpb.ReadSlotsCall{
				Move: r.Move, Ranges: ask.Ranges, Session: r.Session, Batch: r.Batch,
			})
			return shard.SlotsBatch{
				Session: b.GetSession(), Tasks: b.GetTasks(), Gone: b.GetGone(), Copied: b.GetCopied(),
				Left: int(b.GetLeft()), Ready: b.GetReady(),
			}, err
		},
		Seal: func(ctx context.Context) error {
			_, err := s.cfg.Moves.Step(ctx, ask.From, &fsmpb.Command{Op: &fsmpb.Command_SealSlots{
				SealSlots: &fsmpb.SealSlots{Move: ask.Move, Ranges: ask.Ranges, To: id, Epoch: ask.Epoch},
			}})
			return err
		},
	}
	if s.cfg.Copies != nil {
		pull.Pace = s.cfg.Copies.Pace
	}
	return pull
}

func rangesOf(messages []*fsmpb.SlotRange) []fsm.SlotRange {
	ranges := make([]fsm.SlotRange, len(messages))
	for i, m := range messages {
		ranges[i] = fsm.SlotRange{First: m.First, End: m.End}
	}
	return ranges
}
