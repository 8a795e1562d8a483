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
func (p *process) receive(ctx context.Context, ops []operation) []task.Reply {
	now, sure := p.clocks.Now()
	replies := make([]task.Reply, len(ops))
	var cmds []*fsmpb.Command
	var places []int
	for i, o := range ops {
		if !sure && o.counts() {
			replies[i].Err = task.ErrNotProposed
			continue
		}
		cmds, places = append(cmds, o.received(now)), append(places, i)
	}
	for i, reply := range p.router.Do(ctx, cmds) {
		replies[places[i]] = reply
	}
	return replies
}

// counts tells whether the operation asks for something that counts from its receipt.
func (o operation) counts() bool {
	switch op := o.cmd.Op.(type) {
	case *fsmpb.Command_Schedule:
		return op.Schedule.DelayMs != nil
	case *fsmpb.Command_Touch, *fsmpb.Command_Patch:
		return true
	}
	return false
}

// received is the operation's command as it is when a try of it is received. A repeat counts from when it comes.
func (o operation) received(at time.Time) *fsmpb.Command {
	cmd := proto.CloneOf(o.cmd)
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
