package siege

import (
	"context"
	"os/exec"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/workload"
)

// mostPrinted is the number of tasks of each namespace that commands print in a round.
const mostPrinted = 3

// printTasks lets the command line print tasks that have a label with terminal escapes, and records its output.
func (r *Round) printTasks(ctx context.Context) {
	for _, namespace := range r.siege.namespaces() {
		node := r.targets(namespace)[0]
		for _, id := range r.hostileTasks(namespace) {
			args := []string{"task", "get", id, "--addr", node.URL, "--timeout", "5s"}
			if node.KeyFile != "" {
				args = append(args, "--key-file", node.KeyFile)
			}
			if namespace != "" {
				args = append(args, "--namespace", namespace)
			}
			t := history.Trial{Ask: history.AskPrinted, Entry: history.NoEntry, Node: node.Name, Start: r.rec.Now()}
			output, _ := exec.CommandContext(ctx, r.siege.cfg.Binary, args...).CombinedOutput() // a task may be gone
			t.Text = string(output)
			r.rec.Try(t)
		}
	}
}

// hostileTasks returns the ids of the last tasks of a namespace that were scheduled with a label of
// history.HostileText.
func (r *Round) hostileTasks(namespace string) (ids []string) {
	r.rec.View(func(h *history.History) {
		for i := len(h.Calls) - 1; i >= 0 && len(ids) < mostPrinted; i-- {
			c := &h.Calls[i]
			hostile := c.Kind == history.Schedule && !c.Batch && workload.IsHostile(c.Op)
			if hostile && c.Namespace == namespace && c.Outcome == history.OK {
				ids = append(ids, c.ID)
			}
		}
	})
	return ids
}
