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
	say("# A siege, as it was reported\n")
	say("The report of `chaos/cmd/siege` after a long run on one machine: the meaning of \"it holds\" in figures. The " +
		"load never stops while faults strike, and lateness is told for all that came while a fault was under way, healed " +
		"or not: these are no benchmarks. To see it yourself, as root on Linux:\n")
	say("```sh untested: it takes %v\n%s\n```\n", r.Took.Round(time.Minute), command)
	say("The same seed makes the same choices of faults; how they meet the load is the machine's.\n")
	say("Outcome: %s.\n", r.word())
	r.tellRuns(say)
	r.tellSkipped(say)
	r.tellFailed(say)
	return strings.TrimRight(b.String(), "\n") + "\n"
}
