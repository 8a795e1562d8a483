package sim

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// receive carries out a call as the HTTP API has it done: what counts from its receipt counts by the time that this
// node goes by, which is not always the truth, and is refused while the node does not know the time.
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

// counts tells whether the operation asks for something that counts from its receipt.
func counts(cmd *fsmpb.Command) bool {
	switch op := cmd.Op.(type) {
	case *fsmpb.Command_Schedule:
		return op.Schedule.DelayMs != nil
	case *fsmpb.Command_Touch, *fsmpb.Command_Patch:
		return true
	}
	return false
}

// received is the operation's command as it is when a try of it is received. A repeat counts from when it comes.
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

// after is an instant so many milliseconds later, rounded as the service does.
func after(at time.Time, ms int64) int64 { return ceilMs(at.Add(time.Duration(ms) * time.Millisecond)) }
