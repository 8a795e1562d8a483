package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
)

const (
	formVar = "BELFRY_CHAOS"
	long    = "long"  // large numbers, held to the promised times
	alone   = "alone" // the short form on an idle machine, held to times of its own
)

func isLong() bool { return os.Getenv(formVar) == long }

// isTimed reports whether the tests judge times. Beside other tests, which may leave these nodes no processor time,
// they only judge results.
func isTimed() bool { return isLong() || os.Getenv(formVar) == alone }

// pick returns short or inLong, by the form of the run.
func pick[T any](short, inLong T) T {
	if isLong() {
		return inLong
	}
	return short
}

// whenever is the bound for tasks whose time is not judged.
const whenever = time.Duration(math.MaxInt64)

// bound returns the lateness that one task in a hundred may exceed.
func bound(short, inLong time.Duration) time.Duration {
	if !isTimed() {
		return whenever
	}
	return pick(short, inLong)
}

// stage is the cluster of all scenarios. Each scenario has queues and ids of its own.
type stage struct {
	cluster *local.Cluster
	client  *client.Client // through any node
	nodes   []node
	serial  atomic.Int64
}

// setStage starts three nodes with twelve shards.
func setStage(t *testing.T) *stage {
	t.Helper()
	cluster, err := local.Start(t.Context(), local.Config{Binary: localtest.Build(t), DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, cluster)
		}
	})
	c, err := client.New(client.Config{Addrs: cluster.URLs()})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{cluster: cluster, client: c}
	for i, url := range cluster.URLs() {
		s.nodes = append(s.nodes, node{name: cluster.Nodes()[i].Name, url: url})
	}
	s.awaitLeaders(t)
	return s
}

const shownLog = 4 << 10

func showLogs(t *testing.T, cluster *local.Cluster) {
	for _, n := range cluster.Nodes() {
		log, err := os.ReadFile(n.Dir + "/belfry.log")
		if err != nil {
			t.Log(err)
			continue
		}
		t.Logf("%s:\n%s", n.Name, log[max(0, len(log)-shownLog):])
	}
}

// name returns a name that is unique on the stage.
func (s *stage) name(kind string) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(kind, " ", "-"), s.serial.Add(1))
}

// any returns a random node.
func (s *stage) any() node { return s.nodes[rand.IntN(len(s.nodes))] }

// others returns the nodes except the named one.
func (s *stage) others(name string) []node {
	var rest []node
	for _, n := range s.nodes {
		if n.name != name {
			rest = append(rest, n)
		}
	}
	return rest
}

// leader returns the name of the node that leads a shard, or "" if none is known.
func (s *stage) leader(t *testing.T, shard uint32) string {
	t.Helper()
	view, err := s.client.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sh := range view.Shards {
		if n := view.Node(sh.Leader); sh.ID == shard && n != nil {
			return n.Name
		}
	}
	return ""
}

// terms maps each shard to its term.
type terms map[uint32]uint64

func (s *stage) terms(t testing.TB) terms {
	t.Helper()
	view, err := s.client.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := terms{}
	for _, sh := range view.Shards {
		now[sh.ID] = sh.Term
	}
	return now
}

// changedSince reports whether any shard has had another term since then.
func (s *stage) changedSince(t testing.TB, then terms) bool {
	t.Helper()
	return !maps.Equal(then, s.terms(t))
}

func (s *stage) awaitLeaders(t *testing.T) {
	t.Helper()
	await(t, 30*time.Second, "a leader of every shard", func() (bool, string) {
		view, err := s.client.Cluster(t.Context())
		if err != nil {
			return false, err.Error()
		}
		led := 0
		for _, sh := range view.Shards {
			if view.Node(sh.Leader) != nil {
				led++
			}
		}
		return led > 0 && led == len(view.Shards), fmt.Sprintf("%d of %d", led, len(view.Shards))
	})
}

const askEvery = 25 * time.Millisecond

// await polls ok until it returns true. It fails the test at the limit, with the last text of ok.
func await(t testing.TB, limit time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for {
		yes, seen := ok()
		if yes {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v; last seen: %s", what, limit, seen)
		case <-again.C:
		}
	}
}

// until waits for an instant, or the end of the test.
func until(t testing.TB, at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
