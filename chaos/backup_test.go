package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/check/linear"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// backupSize is the size of a run of TestBackupUnderLoad.
type backupSize struct {
	before   time.Duration // load before the backup
	bulk     int           // plain tasks a second
	maxDelay time.Duration
	drain    time.Duration
}

func sizeOfBackup() backupSize {
	if gated.Has(gated.Long) {
		return backupSize{before: time.Minute, bulk: 2000, maxDelay: 90 * time.Second, drain: 4 * time.Minute}
	}
	return backupSize{before: 3 * time.Second, bulk: 300, maxDelay: 8 * time.Second, drain: time.Minute}
}

// TestBackupUnderLoad makes a backup of three nodes under load, and restores it into another number of shards on one
// node, which two others join. The record up to the cut of each shard, and the record of the restored cluster after it,
// must be those of one cluster that stopped at the cut.
func TestBackupUnderLoad(t *testing.T) {
	gated.Need(t, gated.Real)
	parallelIfShort(t)
	localtest.Need(t)
	r := newRestoreRun(t)
	old := r.start("old", 3, "--shards", "3")
	begun := r.underLoad(old, func() {
		r.killedBackup(old)
		r.belfry("backup", "--addr", strings.Join(old.URLs(), ","), "--to", r.backup, "--json")
	})
	old.Stop()
	r.belfry("verify", r.backup)
	stopped := r.rec.Now()
	data := filepath.Join(r.dir, "new", "node-1")
	t.Log(r.belfry("restore", r.backup, "--data", data, "--shards", "7"))
	restored := r.start("new", 3)
	r.settle(restored)
	h := asOneCluster(r.rec.History(), r.cuts(), begun, stopped)
	r.judge(h)
}

// restoreRun is a run of two clusters with one record.
type restoreRun struct {
	t        *testing.T
	size     backupSize
	binary   string
	dir      string
	backup   string // path
	made     []byte // output of the command about the backup
	rec      *history.Recorder
	receiver *workload.Receiver
}

func newRestoreRun(t *testing.T) *restoreRun {
	t.Helper()
	r := &restoreRun{
		t: t, size: sizeOfBackup(), binary: localtest.Build(t), dir: folder(t, "backup"), rec: history.NewRecorder(nil),
	}
	r.backup = filepath.Join(r.dir, "made.backup")
	var err error
	r.receiver, err = workload.Listen(t.Context(), r.rec, "127.0.0.1")
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, r.receiver.Close(), nil)
	})
	return r
}

func (r *restoreRun) start(name string, nodes int, args ...string) *local.Cluster {
	r.t.Helper()
	c, err := local.Start(r.t.Context(), local.Config{
		Binary: r.binary, DataDir: filepath.Join(r.dir, name), Nodes: nodes,
		ExtraArgs: append(args, "--min-free-disk", "0"),
	})
	assert.NoError(r.t, err)
	r.t.Cleanup(c.Stop)
	return c
}

// belfry runs a command, and returns its output. It keeps the output of a backup.
func (r *restoreRun) belfry(args ...string) string {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), r.binary, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			r.t.Logf("%s", exit.Stderr)
		}
		r.t.Fatalf("belfry %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if args[0] == "backup" {
		r.made = out
	}
	return string(out)
}

// killedBackup kills the command while it writes, and checks that no backup is found under its name.
func (r *restoreRun) killedBackup(c *local.Cluster) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), r.binary, "backup", "--addr", c.URLs()[0], "--to", r.backup, "--rate", "20KiB")
	assert.NoError(r.t, cmd.Start())
	late := time.Now().Add(20 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for written := false; !written; <-ticker.C {
		info, err := os.Stat(r.backup + ".part")
		written = err == nil && info.Size() > 0
		if time.Now().After(late) {
			r.t.Fatalf("no part of the backup is there: %v", err)
		}
	}
	assert.NoError(r.t, cmd.Process.Kill())
	assert.Error(r.t, cmd.Wait(), "the command ended before it was killed")
	_, err := os.Stat(r.backup)
	assert.ErrorIs(r.t, err, os.ErrNotExist, "half a backup under its name")
}

func (r *restoreRun) loadOn(c *local.Cluster) *workload.Load {
	r.t.Helper()
	var nodes []workload.Node
	for _, n := range c.Nodes() {
		nodes = append(nodes, workload.Node{Name: n.Name, URL: "http://" + n.HTTPAddr, KeyFile: n.KeyFile})
	}
	l, err := workload.New(workload.Config{
		Nodes: nodes, Target: r.receiver.URL, Recorder: r.rec, Seed: seed(r.t), Prefix: "b-",
		BulkPerSecond: r.size.bulk, MaxDelay: r.size.maxDelay, BulkKept: r.size.before + 2*r.size.drain,
	})
	assert.NoError(r.t, err)
	return l
}

// underLoad calls do while scripts, bulk and consumers run, and returns the instant before do.
func (r *restoreRun) underLoad(c *local.Cluster, do func()) (begun history.Instant) {
	r.t.Helper()
	l, stop := r.loadOn(c), make(chan struct{})
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { l.Consume(ctx) })
	all.Go(func() { l.Run(ctx, stop) })
	all.Go(func() {
		if err := l.Bulk(ctx, stop); err != nil && ctx.Err() == nil {
			r.t.Error(err)
		}
	})
	timer := time.NewTimer(r.size.before)
	defer timer.Stop()
	<-timer.C
	begun = r.rec.Now()
	do()
	close(stop)
	cancel()
	all.Wait()
	return begun
}

// settle lets the tasks of a cluster come to rest, and reads them.
func (r *restoreRun) settle(c *local.Cluster) {
	r.t.Helper()
	l := r.loadOn(c)
	ctx, cancel := context.WithTimeout(r.t.Context(), r.size.drain)
	defer cancel()
	consuming, stop := context.WithCancel(ctx)
	var consumers sync.WaitGroup
	consumers.Go(func() { l.Consume(consuming) })
	l.Drain(ctx, time.Hour)
	stop()
	consumers.Wait()
	assert.Equal(r.t, l.ReadAll(r.t.Context(), math.MaxInt), nil)
}

// cuts returns the instant of each shard in the backup.
func (r *restoreRun) cuts() map[uint32]history.Instant {
	r.t.Helper()
	var made struct {
		Shards []struct {
			Shard uint32    `json:"shard"`
			CutAt time.Time `json:"cut_at"`
		} `json:"shards"`
	}
	if err := json.Unmarshal(r.made, &made); err != nil || len(made.Shards) != 3 {
		r.t.Fatalf("%v: %s", err, r.made)
	}
	cuts := map[uint32]history.Instant{}
	for _, s := range made.Shards {
		cuts[s.Shard] = history.At(s.CutAt)
	}
	return cuts
}

// asOneCluster returns the record of a cluster that stopped at the cuts and went on as the restored one. begun and
// stopped are the beginning of the backup and the end of the old cluster.
//
// The old cluster's acknowledgements before the cut of the task's shard are certain. A later call may be in the backup,
// since a shard's state is taken a little after the instant of its cut. The outcome of a later arrival is in the backup
// if the restored cluster did not repeat the arrival, and has the task at a later revision.
func asOneCluster(h *history.History, cuts map[uint32]history.Instant, begun, stopped history.Instant) *history.History {
	shards := map[string]uint32{}
	for _, c := range h.Calls {
		if c.Start < stopped && c.Answer.Shard != 0 {
			shards[c.ID] = c.Answer.Shard
		}
	}
	cutOf := func(id string) history.Instant { return cmp.Or(cuts[shards[id]], begun) }
	one := &history.History{Faults: []history.Fault{{
		Kind: history.KillAll, Detail: "restored from a backup", Restarted: true, Struck: begun, Mending: stopped, Mended: stopped,
	}}}
	for _, c := range h.Calls {
		certain := cutOf(c.ID)
		switch {
		case c.Start >= stopped || c.End != 0 && c.End <= certain:
		case !c.Kind.Changes():
			continue
		default:
			c.End, c.Outcome, c.Answer = 0, history.Unknown, history.Answer{}
		}
		one.Calls = append(one.Calls, c)
	}
	revision, again := map[string]uint64{}, map[string]bool{}
	for _, c := range h.Calls {
		if c.Final && c.Kind == history.Get {
			revision[c.ID] = c.Answer.Revision
		}
	}
	for _, a := range h.Arrivals {
		again[a.ID] = again[a.ID] || a.At >= stopped
	}
	for _, a := range h.Arrivals {
		certain := cutOf(a.ID)
		if a.At > certain && a.At < stopped && (again[a.ID] || revision[a.ID] < a.Fence) {
			continue
		}
		one.Arrivals = append(one.Arrivals, a)
		if a.Pulled && a.At <= certain {
			one.Calls = append(one.Calls, givenBack(a, stopped))
		}
	}
	slices.SortStableFunc(one.Calls, func(a, b history.Call) int { return cmp.Compare(a.Start, b.Start) })
	return one
}

// givenBack returns the release of a lease by the restore. It happened only if the lease was under way.
func givenBack(lease history.Arrival, at history.Instant) history.Call {
	return history.Call{
		Op: -int64(lease.Fence), Kind: history.Release, ID: lease.ID, Node: "restore",
		Ask: history.Ask{Fence: lease.Fence}, Start: at - 1, Outcome: history.Unknown,
	}
}

// judge fails the test if an invariant is breached, or if no task outlived the restore.
func (r *restoreRun) judge(h *history.History) {
	r.t.Helper()
	x, limits := check.NewIndex(h), limits()
	findings := []check.Finding{
		check.Lost(x), check.Early(x), check.Cancelled(x), check.OneBody(x), check.Fences(x, limits),
		check.Undead(x, limits), check.Leases(x, limits), check.Honest(x), linear.Check(h, linear.Limits{}).Finding,
	}
	for _, f := range findings {
		r.t.Logf("%s %s: %s", f.Invariant, f.Promise, f.Figures)
		for _, b := range f.Breaches[:min(len(f.Breaches), 5)] {
			r.t.Errorf("%s: %s\n%s", b.ID, b.What, strings.Join(x.Timeline(b.ID, b.At, 40), "\n"))
		}
	}
	if lost := findings[0]; lost.Outcome() != check.Held {
		r.t.Errorf("not exercised: %v", lost.Missing())
	}
	if !slices.ContainsFunc(h.Arrivals, func(a history.Arrival) bool { return a.At > h.Faults[0].Mended }) {
		r.t.Error("no task arrived after the restore")
	}
}
