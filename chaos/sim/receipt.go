package sim

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// receive carries out a call as the HTTP API does. Delays count from the receipt, by the node's estimate of the time,
// which can be wrong. An operation with a delay is refused while the node is not sure of the time.
func (p *process) receive(ctx context.Context, ops []*fsmpb.Command) []task.Reply {
	now, sure := p.clocks.Now()
	replies := make([]task.Reply, len(ops))
	var cmds []*fsmpb.Command
	var places []int
	for i, o := range ops {
		if !sure && counts(o) {
			replies[i].Err = task.ErrNotProposed
			continue
		}
		cmds, places = append(cmds, received(o, now)), append(places, i)
	}
	for i, reply := range p.router.Do(ctx, cmds) {
		replies[places[i]] = reply
	}
	return replies
}

// counts reports whether the operation has a time that counts from its receipt.
func counts(cmd *fsmpb.Command) bool {
	switch op := cmd.Op.(type) {
	case *fsmpb.Command_Schedule:
		return op.Schedule.DelayMs != nil
	case *fsmpb.Command_Touch, *fsmpb.Command_Patch, *fsmpb.Command_SetSeries:
		return true
	}
	return false
}

// received returns a copy of the command with the instants that count from the receipt at the given time. A repeat
// counts from its own receipt.
func received(cmd *fsmpb.Command, at time.Time) *fsmpb.Command {
	cmd = proto.CloneOf(cmd)
	switch op := cmd.Op.(type) {
	case *fsmpb.Command_Schedule:
		stamp(op.Schedule, at)
	case *fsmpb.Command_Touch:
		op.Touch.ReceivedAtMs = ceilMs(at)
		if op.Touch.OrSchedule != nil {
			stamp(op.Touch.OrSchedule, at)
		}
	case *fsmpb.Command_SetSeries:
		op.SetSeries.ReceivedAtMs = ceilMs(at)
	case *fsmpb.Command_Patch:
		op.Patch.FireAtMs = proto.Int64(after(at, op.Patch.GetDelayMs()))
	}
	return cmd
}

func stamp(s *fsmpb.Schedule, at time.Time) {
	s.ReceivedAtMs = ceilMs(at)
	if s.DelayMs != nil {
		s.FireAtMs = after(at, *s.DelayMs)
	}
}

// after returns the instant ms milliseconds after at, in Unix milliseconds and rounded up as the service does.
func after(at time.Time, ms int64) int64 { return ceilMs(at.Add(time.Duration(ms) * time.Millisecond)) }
