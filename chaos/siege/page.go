package siege

import (
	"fmt"
	"strings"
	"time"
)

// Page is the report as a page for readers who may want to lay the siege themselves, by that command.
func (r *Report) Page(command string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# A siege, as it was reported\n")
	say("What `chaos/cmd/siege` said after a long run on one machine, for readers who want to know what \"it holds\" " +
		"means in figures. The load never stops while faults strike, and lateness is told for all that came while a fault " +
		"was under way, healed or not: these are no benchmarks. To see it yourself, as root on Linux:\n")
	say("```sh untested: it takes %v\n%s\n```\n", r.Took.Round(time.Minute), command)
	say("The same seed makes the same choices of faults; how they meet the load is the machine's.\n")
	say("Outcome: %s.\n", r.word())
	r.tellRuns(say)
	r.tellSkipped(say)
	r.tellFailed(say)
	return strings.TrimRight(b.String(), "\n") + "\n"
}
