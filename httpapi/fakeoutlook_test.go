package httpapi

import (
	"context"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Outlook returns one row of the wheel, whose counts name the shard. Shard 9 does not answer.
func (f *fakeBackend) Outlook(_ context.Context, shard uint32) (*fsmpb.Outlook, []uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if shard == 9 || f.readErr != nil {
		return &fsmpb.Outlook{}, []uint32{9}, f.readErr
	}
	now := testNow.UnixMilli()
	return &fsmpb.Outlook{
		NowMs: now, Waiting: 70, Beside: 6, Within: []uint64{1, 2, 3, 4, 5}, FirstMs: now / 4000 * 4000, Steps: []uint64{7, 8},
		Rows: []*fsmpb.WheelRow{
			{Level: 1, FirstMs: now / 4096 * 4096, SlotMs: 64, Tasks: slices.Repeat([]uint64{uint64(shard) + 1}, 64)},
		},
	}, nil, nil
}

// Activity returns a step at the instant after afterMs.
func (f *fakeBackend) Activity(_ context.Context, shard uint32, afterMs int64) (*fsmpb.Activity, []uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	step := &fsmpb.ActivityStep{
		AtMs: afterMs + 1, Scheduled: uint64(shard), Fired: 2, Delivered: 3, Failed: 4, Dead: 5, Cancelled: 6, Skipped: 7,
		Late: slices.Repeat([]uint64{8}, len(task.LatenessBounds)+1), Held: []uint64{9},
	}
	return &fsmpb.Activity{SinceMs: 1000, Steps: []*fsmpb.ActivityStep{step}}, []uint32{2}, f.readErr
}
