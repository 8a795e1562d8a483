package siege

import (
	"context"
	"os/exec"
	"sync"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/workload"
)

// neighbour is the second namespace of a siege with keys. Ids and queues have the same names in both.
const neighbour = "neighbour"

// orderedGroups is the number of ordered groups in each namespace, few enough for their tasks to wait for each other.
const orderedGroups = 20

// namespaces returns the namespaces of the load.
func (s *siege) namespaces() []string {
	if s.cfg.Keys {
		return []string{"", neighbour}
	}
	return []string{""}
}

// openLoads makes the loads of all namespaces. With keys it makes the namespaces, and a key for each load.
func (r *Round) openLoads(ctx context.Context, prefix string) (err error) {
	if r.siege.cfg.Keys {
		if r.keys, err = workload.OpenKeys(ctx, r.keysConfig(prefix)); err != nil {
			return err
		}
	}
	cfg, all := r.siege.cfg, r.siege.namespaces()
	for i, namespace := range all {
		forger := ""
		if r.keys != nil {
			if forger, err = r.keys.ConsumerKey(ctx, namespace, workload.ForgerQueue(prefix)); err != nil {
				return err
			}
		}
		l, err := workload.New(workload.Config{
			Nodes: r.targets(namespace), Spare: r.siege.stand.Spare, Target: r.siege.receiver.URL, Recorder: r.rec,
			Seed: r.seed + uint64(i), Namespace: namespace, Prefix: prefix, PerSecond: cfg.PerSecond / len(all),
			BulkPerSecond: cfg.Bulk / len(all), MaxDelay: cfg.MaxDelay, Plain: cfg.Plain, Kept: cfg.Kept,
			BulkKept: cfg.bulkKept(), Groups: orderedGroups, ForgerKey: forger,
		})
		if err != nil {
			return err
		}
		r.loads = append(r.loads, l)
	}
	return nil
}

func (r *Round) keysConfig(prefix string) workload.KeeperConfig {
	return workload.KeeperConfig{
		Nodes: r.targets(""), Spare: r.siege.stand.Spare, AdminFile: r.siege.stand.Cluster.KeyFile(),
		Namespaces: r.siege.namespaces(), Recorder: r.rec, Dir: r.dir, Prefix: prefix, Calm: check.DefaultLimits().Detect,
	}
}

// targets returns the nodes for the load of a namespace.
func (r *Round) targets(namespace string) []workload.Node {
	var nodes []workload.Node
	for _, n := range r.siege.stand.Cluster.Nodes() {
		file := n.KeyFile
		if r.keys != nil {
			file = r.keys.File(namespace)
		}
		nodes = append(nodes, workload.Node{Name: n.Name, URL: "http://" + n.HTTPAddr, KeyFile: file})
	}
	return nodes
}

// changeKeys changes and tries keys until the returned function is called. That function first tries them once more in
// the whole cluster.
func (r *Round) changeKeys(ctx context.Context) (end func()) {
	if r.keys == nil {
		return func() {}
	}
	changing, stop := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { r.keys.Run(changing) })
	return func() {
		stop()
		loops.Wait()
		if r.hasFailed() {
			return // the cluster is not back
		}
		if err := r.keys.Finish(ctx); err != nil {
			r.fail("%v", err)
		}
	}
}

// removeKeys removes the round's keys, so that a long siege does not fill the cluster with them.
func (r *Round) removeKeys(ctx context.Context) error {
	if r.keys == nil || r.hasFailed() {
		return nil
	}
	return r.keys.Close(ctx)
}

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
