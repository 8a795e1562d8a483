package fsm

import (
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Grows reports whether a command needs memory because it brings a task or new contents of one. Other commands change
// or drop an existing task.
func Grows(c *fsmpb.Command) bool {
	switch op := c.Op.(type) {
	case *fsmpb.Command_Schedule:
		return true
	case *fsmpb.Command_Touch:
		return op.Touch.OrSchedule != nil || op.Touch.Payload != nil || len(op.Touch.Append) > 0
	case *fsmpb.Command_Patch:
		return patchGrows(op.Patch)
	case *fsmpb.Command_SetSeries, *fsmpb.Command_StartOccurrence, *fsmpb.Command_Backfill:
		return true
	case *fsmpb.Command_ImportTasks:
		return len(op.ImportTasks.Tasks) > 0
	}
	return false
}

// patchGrows reports whether a patch changes the payload, the target or the labels, except by leaving them out. A patch
// that removes some labels or headers grows: the task may have shared all of them with other tasks, and then needs the
// rest for itself.
func patchGrows(p *fsmpb.Patch) bool {
	set := p.GetSet()
	return len(set.GetPayload()) > 0 || set.GetPayloadIsBytes() || set.GetTarget() != nil || len(set.GetLabels()) > 0 ||
		slices.ContainsFunc(p.GetClear(), func(member string) bool {
			return strings.HasPrefix(member, "labels.") || strings.HasPrefix(member, "target.")
		})
}
