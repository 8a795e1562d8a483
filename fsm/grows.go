package fsm

import "github.com/belfryhq/belfry/fsm/fsmpb"

// Grows reports whether a command needs memory because it brings a task or new contents of one. Other commands change
// or drop an existing task.
func Grows(c *fsmpb.Command) bool {
	switch op := c.Op.(type) {
	case *fsmpb.Command_Schedule:
		return true
	case *fsmpb.Command_Touch:
		return op.Touch.OrSchedule != nil
	case *fsmpb.Command_Patch:
		set := op.Patch.GetSet()
		return len(set.GetPayload()) > 0 || set.GetPayloadIsBytes() || set.GetTarget() != nil || len(set.GetLabels()) > 0
	case *fsmpb.Command_SetSeries, *fsmpb.Command_StartOccurrence, *fsmpb.Command_Backfill:
		return true
	case *fsmpb.Command_ImportTasks:
		return len(op.ImportTasks.Tasks) > 0
	}
	return false
}
