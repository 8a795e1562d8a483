package siege

import (
	"fmt"
	"strings"
	"time"
)

// Page returns the report as a page of the documentation, with the command that lays the same siege.
func (r *Report) Page(command string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Report of a siege\n")
	say("`chaos/cmd/siege` wrote this report after a run on one machine. The load goes on while faults strike, and the " +
		"lateness of a fault is that of all tasks that came until it was healed. So the figures are no benchmarks. To run " +
		"the siege yourself, as root on Linux:\n")
	say("```sh untested: it takes %v\n%s\n```\n", r.Took.Round(time.Minute), command)
	say("The same seed makes the same choices of faults. The timing differs from machine to machine and from run to " +
		"run.\n")
	say("Outcome: %s.\n", r.word())
	r.tellRuns(say)
	r.tellSkipped(say)
	r.tellFailed(say)
	return strings.TrimRight(b.String(), "\n") + "\n"
}
