package router

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// outlookPatience is the time after which a shard counts as missing. Its sums are shown to people, who wait.
const outlookPatience = 2 * time.Second

// Outlook adds up the tasks that wait in the wheels of shards; shard 0 stands for all. It leaves out the shards whose
// leaders do not answer, and returns their ids. The error is that of a node that does not know the shards yet.
func (r *Router) Outlook(ctx context.Context, shard uint32) (sum *fsmpb.Outlook, missing []uint32, err error) {
	parts, missing, err := answering[*fsmpb.Outlook](ctx, r, shard, &clusterpb.OutlookCall{})
	return addOutlooks(parts), missing, err
}

// Activity adds up the events of shards, in the steps that begin after an instant in Unix milliseconds. It leaves
// shards out as Outlook does.
func (r *Router) Activity(
	ctx context.Context, shard uint32, afterMs int64,
) (sum *fsmpb.Activity, missing []uint32, err error) {
	parts, missing, err := answering[*fsmpb.Activity](ctx, r, shard, &clusterpb.ActivityCall{AfterMs: afterMs})
	return addActivities(parts), missing, err
}

// answering asks the leader of one shard, or the leaders of all shards if it is 0. It returns the answers, and the ids
// of the silent shards.
func answering[A proto.Message](
	ctx context.Context, r *Router, only uint32, request proto.Message,
) (answers []A, missing []uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, outlookPatience)
	defer cancel()
	shards := r.shards()
	if len(shards) == 0 {
		return nil, nil, errNoMap
	}
	if only != 0 {
		shards = []uint32{only}
	}
	all, errs := askAll[A](ctx, r, shards, request)
	for i, a := range all {
		if errs[i] != nil || !a.ProtoReflect().IsValid() {
			missing = append(missing, shards[i])
		} else {
			answers = append(answers, a)
		}
	}
	return answers, missing, nil
}

// addOutlooks adds up counts whose steps may begin at different instants. Steps that only some shards have are left
// out.
func addOutlooks(parts []*fsmpb.Outlook) *fsmpb.Outlook {
	sum := &fsmpb.Outlook{}
	type place struct {
		level uint32
		first int64
	}
	rows := map[place]*fsmpb.WheelRow{}
	for _, part := range parts {
		sum.NowMs = max(sum.NowMs, part.NowMs)
		sum.FirstMs = max(sum.FirstMs, part.FirstMs)
		sum.Waiting += part.Waiting
		sum.Beside += part.Beside
		sum.Within = addTo(sum.Within, part.Within)
		for _, row := range part.Rows {
			at := place{row.Level, row.FirstMs}
			if rows[at] == nil {
				rows[at] = &fsmpb.WheelRow{Level: row.Level, FirstMs: row.FirstMs, SlotMs: row.SlotMs}
				sum.Rows = append(sum.Rows, rows[at])
			}
			rows[at].Tasks = addTo(rows[at].Tasks, row.Tasks)
		}
	}
	slices.SortFunc(sum.Rows, func(a, b *fsmpb.WheelRow) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.FirstMs, b.FirstMs))
	})
	common := -1
	for _, part := range parts {
		skipped := int((sum.FirstMs - part.FirstMs) / task.OutlookStep.Milliseconds())
		steps := part.Steps[min(skipped, len(part.Steps)):]
		if common < 0 || len(steps) < common {
			common = len(steps)
		}
		sum.Steps = addTo(sum.Steps, steps)
	}
	sum.Steps = sum.Steps[:max(common, 0)]
	return sum
}

func addActivities(parts []*fsmpb.Activity) *fsmpb.Activity {
	sum := &fsmpb.Activity{}
	steps := map[int64]*fsmpb.ActivityStep{}
	for _, part := range parts {
		sum.SinceMs = max(sum.SinceMs, part.SinceMs)
		for _, s := range part.Steps {
			to := steps[s.AtMs]
			if to == nil {
				to = &fsmpb.ActivityStep{AtMs: s.AtMs}
				steps[s.AtMs] = to
				sum.Steps = append(sum.Steps, to)
			}
			to.Scheduled += s.Scheduled
			to.Fired += s.Fired
			to.Delivered += s.Delivered
			to.Failed += s.Failed
			to.Dead += s.Dead
			to.Cancelled += s.Cancelled
			to.Skipped += s.Skipped
			to.Late = addTo(to.Late, s.Late)
			to.Held = addTo(to.Held, s.Held)
		}
	}
	slices.SortFunc(sum.Steps, func(a, b *fsmpb.ActivityStep) int { return cmp.Compare(a.AtMs, b.AtMs) })
	return sum
}

// addTo adds numbers to a list place by place. The list grows to their length.
func addTo(sum, numbers []uint64) []uint64 {
	for i, n := range numbers {
		if i == len(sum) {
			sum = append(sum, 0)
		}
		sum[i] += n
	}
	return sum
}
