package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/cluster/internal/peertest"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/logstore"
)

func schedule(id string, delay time.Duration) *fsmpb.Command {
	now := time.Now()
	return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec:     &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://127.0.0.1:1/"}},
		FireAtMs: now.Add(delay).UnixMilli(), ReceivedAtMs: now.UnixMilli(),
	}}}
}

// mustDo carries out commands, each with success.
func mustDo(t testing.TB, n *cluster.Node, cmds ...*fsmpb.Command) []task.Reply {
	t.Helper()
	replies := n.Do(t.Context(), cmds)
	for i, r := range replies {
		if r.Err != nil {
			t.Fatalf("command %d: %v", i, r.Err)
		}
	}
	return replies
}

// metric returns the sum of a counter or gauge of a node over its labels.
func metric(t testing.TB, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	assert.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.Counter.GetValue() + m.Gauge.GetValue()
			}
		}
	}
	return sum
}

// Three nodes with keys speak over the system's network: one of them restarts, and all deliver tasks before and after.
// All other tests of clusters have a network in memory.
func TestNodesOnLoopback(t *testing.T) {
	t.Parallel()
	keys := peertest.NewAuthority(t)
	c := clustertest.NewOnLoopback(t, 3, func(_ int, cfg *cluster.Config) {
		cert, key := keys.Sign(cfg.Name, cfg.Name+peerkeys.NameSuffix)
		cfg.Keys = &peerkeys.Files{Cert: cert, Key: key, CA: keys.CAFile, Gossip: keys.GossipFile}
		cfg.Shards = 3
	})
	deliver := func(when string) {
		t.Helper()
		for i := range 9 {
			id := fmt.Sprint(when, "-", i)
			c.Until(id+" is scheduled", func() error { return do(c.Node(i%3), schedule(id, 0)) })
			c.Until(id+" is delivered", func() error {
				if c.Deliver.Attempts(id) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
		}
	}
	deliver("before")
	c.Stop(1)
	c.Start(1)
	c.WaitReady()
	deliver("after")
}

func TestSingleNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, nil)
		n := c.Node(0)
		mustDo(t, n, schedule("a", time.Hour), schedule("b", 0))
		c.Until("b is delivered", func() error {
			if c.Deliver.Attempts("b") != 1 {
				return errors.New("not yet")
			}
			return nil
		})
		c.Stop(0)
		c.Start(0)
		c.WaitReady()
		task, err := c.Node(0).Get(t.Context(), "", "a", false)
		if err != nil || task.GetState() != fsmpb.State_STATE_SCHEDULED {
			t.Fatalf("after a restart: %v, %v", task, err)
		}
		if c.Node(0).ID() != n.ID() || c.Node(0).ClusterID() != n.ClusterID() {
			t.Error("the node is another one after a restart")
		}
	})
}

// A task scheduled through one node is readable at once through all others, also through those without a replica of
// it. Each call costs one hop at most.
func TestFiveNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 5, func(_ int, cfg *cluster.Config) { cfg.Shards = 6 })
		v := c.Node(0).View(t.Context())
		checkSpread(t, v)
		c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(t.Context())) })
		c.Until("all believe in the same map", func() error { return sameMap(c, 5) })
		checkMap(t, c.Node(3))
		for i := range 60 {
			id := fmt.Sprint("task-", i)
			mustDo(t, c.Node(i%5), schedule(id, time.Hour))
			for j := range 5 {
				if task, err := c.Node(j).Get(t.Context(), "", id, false); err != nil || task == nil {
					t.Fatalf("%s through node %d: %v, %v", id, j, task, err)
				}
			}
		}
		var seen []string
		for q := (&fsmpb.ListQuery{Limit: 7}); ; {
			page, err := c.Node(2).List(t.Context(), q, false)
			assert.NoError(t, err)
			for _, task := range page.Tasks {
				seen = append(seen, task.Id)
			}
			if !page.More {
				break
			}
			q.Slot, q.AfterId = page.Slot, page.AfterId
		}
		slices.Sort(seen)
		if len(seen) != 60 || len(slices.Compact(seen)) != 60 {
			t.Errorf("%d tasks listed", len(seen))
		}
		checkOneHop(t, c)
	})
}

func sameMap(c *clustertest.Cluster, nodes int) error {
	first := c.Node(0).MapVersion()
	for i := range nodes {
		if version := c.Node(i).MapVersion(); version != first {
			return fmt.Errorf("node %d believes in map %s, node 0 in %s", i, version, first)
		}
	}
	return nil
}

// checkMap checks that the map has the leaders and slots of the whole view, and the URLs of the leaders.
func checkMap(t *testing.T, n *cluster.Node) {
	t.Helper()
	v, m := n.View(t.Context()), n.Map()
	urls := map[string]string{}
	for _, node := range m.Nodes {
		urls[node.ID] = node.URL
	}
	if m.ClusterID != v.ID || m.Version != v.Map || len(m.Shards) != len(v.Shards) {
		t.Errorf("the map is %+v", m)
	}
	for i, s := range m.Shards {
		at := slices.IndexFunc(v.Nodes, func(node view.Node) bool { return node.ID == s.Leader })
		if want := v.Shards[i]; s.ID != want.ID || s.Leader != want.Leader || !slices.Equal(s.Slots, want.Slots) || at < 0 ||
			urls[s.Leader] != v.Nodes[at].HTTPURL {
			t.Errorf("the map has %+v at %s, the view %+v", s, urls[s.Leader], want)
		}
	}
}

// atHome returns an error unless every shard is led by the node that placement prefers.
func atHome(v cluster.View) error {
	for _, s := range v.Shards {
		if preferred := v.Records[s.ID].Preferred; s.Leader != preferred {
			return fmt.Errorf("shard %d is led by %q, not by %s", s.ID, s.Leader, preferred)
		}
	}
	return nil
}

// checkSpread checks that each shard has three replicas and each node its share of them.
func checkSpread(t *testing.T, v cluster.View) {
	t.Helper()
	held, preferred := make(map[string]int), make(map[string]int)
	for _, s := range v.Shards {
		preferred[v.Records[s.ID].Preferred]++
		assert.Equal(t, len(s.Replicas), 3, "shard %d: %v", s.ID, s.Replicas)
		for _, r := range s.Replicas {
			held[r.Node]++
		}
	}
	for node, n := range held {
		if n < 3 || n > 4 { // 18 over 5
			t.Errorf("node %s holds %d replicas", node, n)
		}
		if n := preferred[node]; n < 1 || n > 2 { // 6 over 5
			t.Errorf("node %s should lead %d shards", node, n)
		}
	}
	if len(v.Shards) != 6 || len(v.Nodes) != 5 || len(held) != 5 {
		t.Errorf("%d shards on %d of %d nodes", len(v.Shards), len(held), len(v.Nodes))
	}
}

// checkOneHop checks that a call makes exactly one hop, or none on the leader's own node.
func checkOneHop(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	for i := range 5 {
		if local, hops, retries := roundOfCalls(t, c, i); local+hops != 60 || hops == 0 || retries > 0 {
			t.Errorf("node %d: 60 calls: %v local, %v hops, %v retries", i, local, hops, retries)
		}
	}
}

// roundOfCalls makes 60 calls through one node and returns the growth of its router's counters.
func roundOfCalls(t *testing.T, c *clustertest.Cluster, node int) (local, hops, retries float64) {
	t.Helper()
	names := [3]string{"belfry_router_local_total", "belfry_router_hops_total", "belfry_router_retries_total"}
	var grown [3]float64
	for k, name := range names {
		grown[k] = -metric(t, c.Registry(node), name)
	}
	for j := range 60 {
		mustDo(t, c.Node(node), schedule(fmt.Sprint("task-", j), 2*time.Hour))
	}
	for k, name := range names {
		grown[k] += metric(t, c.Registry(node), name)
	}
	return grown[0], grown[1], grown[2]
}

// The death of the leader of a shard only delays its calls, by less than a second.
func TestCallsGoOnWithoutALeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		mustDo(t, c.Node(0), schedule("x", time.Hour))
		leader := leaderOf(t, c, "x")
		c.Crash(leader)
		survivor := (leader + 1) % 3
		began := time.Now()
		mustDo(t, c.Node(survivor), schedule("x", 2*time.Hour))
		if took := time.Since(began); took > time.Second { // as shard.LAN promises
			t.Errorf("a call after the crash took %v", took)
		}
		if task, err := c.Node(survivor).Get(t.Context(), "", "x", false); err != nil || task == nil {
			t.Fatalf("%v, %v", task, err)
		}
		c.Start(leader)
		c.WaitReady()
		mustDo(t, c.Node(leader), schedule("x", 3*time.Hour))
	})
}

func leaderOf(t *testing.T, c *clustertest.Cluster, id string) int {
	t.Helper()
	slot := task.Slot("", id)
	for _, s := range c.Node(0).View(t.Context()).Shards {
		if s.Owns(slot) {
			if i := c.Index(s.Leader); i >= 0 {
				return i
			}
		}
	}
	t.Fatalf("no leader of the shard of %s", id)
	return -1
}

// A planned stop gives leaderships away first, so the other nodes' calls do not wait for an election.
func TestStopIsHardlyNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		<-time.After(5 * time.Second) // every node has heard how the others are
		leader := leaderOf(t, c, "x")
		c.Stop(leader)
		began := time.Now()
		for i := range 3 {
			if i == leader {
				continue
			}
			for j := range 40 {
				mustDo(t, c.Node(i), schedule(fmt.Sprint("y", j), time.Hour))
			}
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("80 calls after the stop took %v", took)
		}
	})
}

// The other nodes find a node that restarts on its data at another port.
func TestNodeMovesToAnotherPort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		moved := false
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) {
			if moved {
				cfg.BindAddr = "127.0.0.1:0"
			}
		})
		id, addr := c.Node(1).ID(), c.Node(1).PeerAddr()
		c.Crash(1)
		moved = true
		c.Start(1)
		c.WaitReady()
		if c.Node(1).ID() != id || c.Node(1).PeerAddr() == addr {
			t.Fatalf("node %s at %s, was %s at %s", c.Node(1).ID(), c.Node(1).PeerAddr(), id, addr)
		}
		c.Until("the new address is registered", func() error {
			for _, n := range c.Node(0).View(t.Context()).Nodes {
				if n.ID == id && n.PeerAddr == c.Node(1).PeerAddr() {
					return nil
				}
			}
			return errors.New("not yet")
		})
		for j := range 40 {
			mustDo(t, c.Node(1), schedule(fmt.Sprint("z", j), time.Hour))
		}
		c.Crash(2) // now each majority needs the node that moved
		for j := range 40 {
			mustDo(t, c.Node(0), schedule(fmt.Sprint("z", j), time.Hour))
		}
		c.Start(2)
		c.WaitReady()
	})
}

// A node that joins later holds no replica, knows the whole cluster, and takes every call.
func TestJoiner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		i := c.Add()
		c.Start(i)
		c.WaitReady()
		c.Until("all know the joiner", func() error {
			for j := range 4 {
				if v := c.Node(j).View(t.Context()); len(v.Nodes) != 4 || len(v.Shards) != clustertest.Shards {
					return fmt.Errorf("node %d knows %d nodes and %d shards", j, len(v.Nodes), len(v.Shards))
				}
			}
			return nil
		})
		assert.MustEqual(t, c.Node(i).ClusterID(), c.Node(0).ClusterID(), "the joiner is in another cluster")
		for j := range 40 {
			mustDo(t, c.Node(i), schedule(fmt.Sprint("j", j), time.Hour))
		}
		c.Stop(i)
		c.Start(i)
		c.WaitReady()
		mustDo(t, c.Node(i), schedule("again", time.Hour))
	})
}

// Commands about one id keep their order within a call, whichever leader takes them, also while leaders change.
func TestOrderIsKeptWhileLeadersChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		done := make(chan error, 1)
		go func() { done <- hammer(t.Context(), c.Node(0)) }()
		for round := range 2 {
			victim := 1 + round%2
			c.Crash(victim)
			c.Start(victim)
			c.WaitReady()
		}
		assert.NoError(t, <-done)
	})
}

// hammer makes calls of three commands about one id. The last command must determine the task.
func hammer(ctx context.Context, n *cluster.Node) error {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	ends := time.Now().Add(3 * time.Second)
	for i := 0; time.Now().Before(ends); i++ {
		<-pace.C
		id := fmt.Sprint("h", i%50)
		last := time.Duration(i+3) * time.Hour
		cmds := []*fsmpb.Command{schedule(id, time.Hour), schedule(id, 2*time.Hour), schedule(id, last)}
		want := cmds[2].GetSchedule().FireAtMs
		replies := n.Do(ctx, cmds)
		if errors.Is(replies[2].Err, task.ErrUnknown) {
			continue // the call may yet be committed, or not
		}
		if replies[2].Err != nil {
			return replies[2].Err
		}
		task, err := n.Get(ctx, "", id, false)
		if err != nil {
			return err
		}
		if task.FireAtMs != want {
			return fmt.Errorf("%s: fires at %d, the last command said %d", id, task.FireAtMs, want)
		}
	}
	return nil
}

// Three nodes with keys form a cluster, and a later node joins it with a token. A node without a token waits, and a
// node with another authority cannot join.
func TestNodesWithKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := peertest.NewAuthority(t), peertest.NewAuthority(t)
		stranger, tokens := -1, t.TempDir()
		tokenFile := func(name string) string { return filepath.Join(tokens, name) }
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			authority := ours
			if i == stranger {
				authority = theirs
			}
			cert, key := authority.Sign(cfg.Name, cfg.Name+peerkeys.NameSuffix)
			cfg.Keys = &peerkeys.Files{Cert: cert, Key: key, CA: authority.CAFile, Gossip: authority.GossipFile}
			cfg.JoinTokenFile = tokenFile(cfg.Name)
		})
		c.WaitReady()
		joiner := c.Add()
		c.Start(joiner)
		c.Until("the joiner reports its need", func() error {
			err := c.Node(joiner).Ready()
			if err == nil || !strings.Contains(err.Error(), "--join-token-file") {
				return fmt.Errorf("it says %w", err)
			}
			return nil
		})
		made, err := c.Node(2).Tokens().NewJoinToken(t.Context(), time.Hour)
		if err != nil || made.ID == "" {
			t.Fatalf("%+v, %v", made, err)
		}
		assert.NoError(t, os.WriteFile(tokenFile(fmt.Sprint("n", joiner)), []byte(made.Token), 0o600))
		c.WaitReady()
		c.Until("the token is used", func() error {
			list := c.Node(joiner).Tokens().JoinTokens()
			if len(list) != 1 || list[0].UsedBy != c.Node(joiner).ID() || list[0].UsedName != fmt.Sprint("n", joiner) {
				return fmt.Errorf("tokens %+v", list)
			}
			return nil
		})
		for i := range 4 {
			mustDo(t, c.Node(i), schedule(fmt.Sprint("k", i), time.Hour))
		}
		awaitFindings(t, c, []int{0, joiner}, slices.Repeat([]doctor.Code{doctor.CertificateEnds}, 4)...) // within the hour
		stranger = c.Add()
		c.Start(stranger)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := c.Node(stranger).Do(ctx, []*fsmpb.Command{schedule("x", time.Hour)})[0].Err; err == nil {
			t.Error("a stranger wrote a task")
		}
		if c.Node(stranger).Ready() == nil || c.Node(stranger).ClusterID() != "" {
			t.Error("a stranger got in")
		}
		c.Stop(stranger)
	})
}

// A replica whose folder was emptied has forgotten its vote. It does not run, and all other replicas do.
func TestWipedReplicaIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		c.Stop(2)
		assert.NoError(t, os.RemoveAll(filepath.Join(c.DataDir(2), "groups", "0003")))
		c.Start(2)
		c.Until("the other replicas run", func() error {
			for _, s := range c.Node(0).View(t.Context()).Shards {
				for _, r := range s.Replicas {
					wiped := s.ID == 3 && r.Node == c.Node(2).ID()
					if (r.State == "absent") != wiped {
						return fmt.Errorf("shard %d: %+v", s.ID, r)
					}
				}
			}
			return nil
		})
		c.Until("the node reports its loss", func() error {
			if err := c.Node(2).Ready(); !errors.Is(err, logstore.ErrLostLog) {
				return fmt.Errorf("it says: %w", err)
			}
			return nil
		})
		for j := range 40 {
			mustDo(t, c.Node(2), schedule(fmt.Sprint("w", j), time.Hour))
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	good := cluster.Config{DataDir: t.TempDir(), Deliver: &clustertest.Receiver{}, Fatal: func(error) {}, Name: "n"}
	for name, edit := range map[string]func(*cluster.Config){
		"no folder":     func(c *cluster.Config) { c.DataDir = "" },
		"no deliverer":  func(c *cluster.Config) { c.Deliver = nil },
		"no Fatal":      func(c *cluster.Config) { c.Fatal = nil },
		"name":          func(c *cluster.Config) { c.Name = "a.b" },
		"two nodes":     func(c *cluster.Config) { c.BootstrapExpect = 2 },
		"alone, joined": func(c *cluster.Config) { c.BootstrapExpect, c.Join = 1, []string{"127.0.0.1:1"} },
		"join":          func(c *cluster.Config) { c.Join = []string{"nowhere"} },
		"shards":        func(c *cluster.Config) { c.Shards = 1000 },
		"replication":   func(c *cluster.Config) { c.Replication = 2 },
		"not loopback":  func(c *cluster.Config) { c.BindAddr = "192.0.2.1:0" },
	} {
		cfg := good
		edit(&cfg)
		if n, err := cluster.Open(cfg); err == nil {
			t.Errorf("%s: opened", name)
			_ = n.Close(t.Context())
		}
	}
}
