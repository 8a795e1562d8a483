package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/build"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/gated"
)

// firstBuild returns the program of the first command version.
func firstBuild(t *testing.T) string {
	t.Helper()
	return olderBuild(t, build.FirstVersion)
}

// olderBuild returns the program of a commit. It skips the test if git does not have it. All builds have the tag chaos,
// so that nodes take snapshots often, and install those of the other build.
func olderBuild(t *testing.T, commit string) string {
	t.Helper()
	binary, err := build.At(t.Context(), commit, t.TempDir(), "chaos")
	if errors.Is(err, build.ErrNoHistory) {
		t.Skipf("NOT TESTED: rolling upgrades: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// TestRollingUpgradeUnderLoad changes the build of all nodes to that of the first command version, one after the other,
// and back, under load and while leaders are killed. All invariants hold. The long form makes no claim about time
// either: a node that is killed and one that changes its build are down at once.
func TestRollingUpgradeUnderLoad(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel() // with the test below; neither judges times
	other := firstBuild(t)
	cfg := siege.Config{Sample: 500, MaxDelay: 2 * time.Second}
	times := 1
	if gated.Has(gated.Long) {
		cfg = siege.Config{Shards: 12, PerSecond: 300, MaxDelay: 10 * time.Second, Drain: 3 * time.Minute}
		times = 6
	}
	plan := siege.Plan{Name: "rolling upgrades and back", Play: func(ctx context.Context, r *siege.Round) error {
		for range times {
			if err := siege.UpgradeUnderFire(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}}
	cfg.Binary, cfg.Other, cfg.Dir, cfg.Limits, cfg.Seed = localtest.Build(t, "chaos"), other, folder(t, "upgrade"), mild(), seed(t)
	cfg.Round, cfg.Plan, cfg.Keep = 1, &plan, true
	cfg.Faults = []string{faults.RollingUpgrade, history.KillLeader}
	report, err := siege.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report.Markdown())
	if !report.OK() {
		t.Fail()
	}
	if changes := struckBy(report, faults.RollingUpgrade); changes < 6*times {
		t.Errorf("%d changes of a node's build, not %d: nothing was shown", changes, 6*times)
	}
}

// upgraded is a local cluster whose nodes change their builds.
type upgraded struct {
	*testing.T
	cluster  *local.Cluster
	old, now local.Build
	tasks    int
	key      client.Secret // of calls; empty: they need none
}

// TestNodesGoBackUntilTheVersionIsRaised forms a cluster with the first build. It upgrades two of the nodes, gives them
// the first build again, and then upgrades all of them. Once the version is raised, the first build refuses the folder,
// and the present one goes on with it. (The test above takes all nodes back, which they can while they hold the version.)
func TestNodesGoBackUntilTheVersionIsRaised(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	u := &upgraded{T: t, old: local.Build{Binary: firstBuild(t)}, now: local.Build{Binary: localtest.Build(t, "chaos")}}
	cluster, err := local.Start(t.Context(), local.Config{
		DataDir: t.TempDir(), Binary: u.old.Binary, ExtraArgs: []string{"--shards", "3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Stop()
	u.cluster = cluster
	u.write()
	for _, build := range []local.Build{u.now, u.old, u.now} {
		for _, name := range []string{"node-1", "node-2"} {
			u.change(name, build)
			u.write()
			u.inForce(1)
		}
	}
	u.change("node-3", u.now)
	u.inForce(newest)
	u.refuses("node-2", "that this build cannot read")
	u.change("node-2", u.now)
	u.write()
	u.inForce(newest)
}

// The command versions of the present build and of the last build without keys.
const (
	newest  = 6
	keyless = 2
)

// TestKeysWaitForTheLastUpgrade forms a cluster with the last build without keys. No key and no namespace can be made
// while one of its nodes runs that build, also after a node went back to it, and the refusals name that node. After the
// last upgrade the first key puts keys in force at all nodes, through kills, and the older build refuses the folder.
func TestKeysWaitForTheLastUpgrade(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	u := &upgraded{T: t, old: local.Build{Binary: olderBuild(t, build.OpenCalls)},
		now: local.Build{Binary: localtest.Build(t, "chaos")}}
	cluster, err := local.Start(t.Context(), local.Config{
		DataDir: t.TempDir(), Binary: u.old.Binary, ExtraArgs: []string{"--shards", "3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Stop()
	u.cluster = cluster
	u.write()
	u.change("node-1", u.now)
	u.change("node-2", u.now)
	u.noKeyYet("node-3")
	u.change("node-2", u.old)
	u.write()
	u.noKeyYet("node-2", "node-3")
	u.change("node-2", u.now)
	u.noKeyYet("node-3")
	u.inForce(keyless)
	u.change("node-3", u.now)
	u.inForce(newest)
	u.putKeysInForce()
	u.write()
	u.refuses("node-2", "that this build cannot read")
	u.change("node-2", u.now)
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		if err := errors.Join(cluster.Kill(name), cluster.StartNode(t.Context(), name)); err != nil {
			t.Fatal(err)
		}
		u.mustAskForKeys(name)
	}
	u.write()
}

// noKeyYet checks that each node of the present build refuses to make a key or a namespace, and names the nodes with
// the older one. Calls without a key go on meanwhile.
func (u *upgraded) noKeyYet(behind ...string) {
	u.Helper()
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		if slices.Contains(behind, name) {
			continue
		}
		_, keyErr := u.client(name).CreateKey(u.Context(), adminKey)
		_, spaceErr := u.client(name).PutNamespace(u.Context(), "early", client.Quotas{})
		for _, err := range []error{keyErr, spaceErr} {
			var refusal *client.Error
			if !errors.As(err, &refusal) || refusal.Status != 409 {
				u.Errorf("%s, while %v run the older build: %v", name, behind, err)
				continue
			}
			for _, other := range behind {
				if !strings.Contains(err.Error(), other) {
					u.Errorf("%s does not name %s: %v", name, other, err)
				}
			}
		}
	}
}

var adminKey = client.KeyRequest{
	Name: "first", Grants: []client.Grant{{Role: client.RoleAdmin, Namespace: client.AllNamespaces}},
}

// putKeysInForce makes the first key, and checks that every node asks for keys from then on.
func (u *upgraded) putKeysInForce() {
	u.Helper()
	made, err := u.client("node-1").CreateKey(u.Context(), adminKey)
	if err != nil {
		u.Fatal(err)
	}
	u.key = made.Key
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		u.mustAskForKeys(name)
	}
}

// mustAskForKeys checks that a node refuses a call without a key, and takes one with the key.
func (u *upgraded) mustAskForKeys(name string) {
	u.Helper()
	without := &upgraded{T: u.T, cluster: u.cluster}
	if _, err := without.client(name).Get(u.Context(), "task-0"); !errors.Is(err, client.ErrUnauthenticated) {
		u.Errorf("%s answers a call without a key: %v", name, err)
	}
	if _, err := u.client(name).Get(u.Context(), "task-0"); err != nil {
		u.Errorf("%s, with the key: %v", name, err)
	}
}

// change restarts a node with a build, and reads all tasks through it.
func (u *upgraded) change(name string, build local.Build) {
	u.Helper()
	if u.running(name) {
		if err := u.cluster.Terminate(name); err != nil {
			u.Fatal(err)
		}
	}
	if err := errors.Join(u.cluster.UseBuild(name, build), u.cluster.StartNode(u.Context(), name)); err != nil {
		u.Fatal(err)
	}
	c := u.client(name)
	for i := range u.tasks {
		if _, err := c.Get(u.Context(), fmt.Sprint("task-", i)); err != nil {
			u.Errorf("task %d through %s, after its change: %v", i, name, err)
		}
	}
}

func (u *upgraded) node(name string) local.Node {
	nodes := u.cluster.Nodes()
	return nodes[slices.IndexFunc(nodes, func(n local.Node) bool { return n.Name == name })]
}

func (u *upgraded) running(name string) bool { return u.node(name).PID != 0 }

func (u *upgraded) client(names ...string) *client.Client {
	u.Helper()
	var addrs []string
	for _, name := range names {
		addrs = append(addrs, "http://"+u.node(name).HTTPAddr)
	}
	c, err := client.New(client.Config{Addrs: addrs, FixedAddrs: true, Key: u.key})
	if err != nil {
		u.Fatal(err)
	}
	return c
}

// write schedules tasks through all nodes that run.
func (u *upgraded) write() {
	u.Helper()
	for range 10 {
		for _, name := range []string{"node-1", "node-2", "node-3"} {
			task := client.Task{ID: fmt.Sprint("task-", u.tasks), Delay: time.Hour}
			if _, err := u.client(name).Schedule(u.Context(), task); err != nil {
				u.Fatalf("through %s: %v", name, err)
			}
			u.tasks++
		}
	}
}

// inForce waits until a node of the present build says that a command version is in force. Nodes of the first build say
// nothing about it.
func (u *upgraded) inForce(want uint32) {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), 20*time.Second)
	defer cancel()
	for {
		var seen uint32
		for _, node := range u.cluster.Nodes() {
			if view, err := u.client(node.Name).Cluster(ctx); err == nil {
				seen = max(seen, view.CommandVersion)
			}
		}
		switch {
		case seen == want || seen == 0 && want == 1:
			return
		case seen > want:
			u.Fatalf("command version %d is in force, and not %d", seen, want)
		case !faults.Wait(ctx, 50*time.Millisecond):
			u.Fatalf("command version %d is not in force: %d is", want, seen)
		}
	}
}

// refuses starts a node with the older build, which must end by itself and say why.
func (u *upgraded) refuses(name, reason string) {
	u.Helper()
	if err := errors.Join(u.cluster.Terminate(name), u.cluster.UseBuild(name, u.old)); err != nil {
		u.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(u.Context(), 30*time.Second)
	defer cancel()
	err := u.cluster.StartNode(ctx, name)
	for u.running(name) && faults.Wait(ctx, 20*time.Millisecond) {
		continue // it may end later, and the cluster notices it later still
	}
	log, logErr := os.ReadFile(filepath.Join(u.node(name).Dir, "belfry.log"))
	if u.running(name) || logErr != nil || !strings.Contains(string(log), reason) {
		u.Errorf("the older build runs on with newer logs (%v, %v); its log ends with\n%s", err, logErr, log[max(0, len(log)-3000):])
	}
}

// struckBy returns how often a kind of fault struck.
func struckBy(report *siege.Report, kind string) int {
	struck := 0
	for _, round := range report.Rounds {
		for _, toll := range round.Tolls {
			if toll.Kind == kind {
				struck += toll.Count
			}
		}
	}
	return struck
}
