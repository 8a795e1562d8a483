package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard"
)

var voters = []string{"a", "b", "c"}

// copyOf is a replica that has hashes and no other state; its correct hashes are right's.
type copyOf struct {
	fake
	at       uint64
	restores uint64
	sum      func(index uint64) uint64
}

func right(index uint64) uint64 { return 1000 + index }

func wrongFrom(first uint64) func(uint64) uint64 {
	return func(index uint64) uint64 {
		if index >= first {
			return right(index) + 1
		}
		return right(index)
	}
}

func (c *copyOf) Restores() uint64 { return c.restores }

func (c *copyOf) Newest() shard.Checkpoint {
	return shard.Checkpoint{Index: c.at, Sum: c.sum(c.at)}
}

func (c *copyOf) CheckpointAt(index uint64) (shard.Checkpoint, bool) {
	return shard.Checkpoint{Index: index, Sum: c.sum(index)}, index <= c.at
}

// Checkpoints returns those at every tenth index, and the newest.
func (c *copyOf) Checkpoints(from uint64) []shard.Checkpoint {
	var all []shard.Checkpoint
	for index := (from + 9) / 10 * 10; index <= c.at; index += 10 {
		if index > 0 {
			all = append(all, shard.Checkpoint{Index: index, Sum: c.sum(index)})
		}
	}
	if c.at > 0 && c.at%10 != 0 {
		all = append(all, shard.Checkpoint{Index: c.at, Sum: c.sum(c.at)})
	}
	return all
}

// trio is three nodes, each with a replica of one shard.
type trio struct {
	copies map[string]*copyOf
	nodes  map[string]*Nodes
	out    map[string]*bytes.Buffer
	down   map[string]bool
}

func newTrio() *trio {
	w := &trio{
		copies: map[string]*copyOf{}, nodes: map[string]*Nodes{}, out: map[string]*bytes.Buffer{},
		down: map[string]bool{},
	}
	for _, node := range voters {
		w.copies[node] = &copyOf{sum: right}
		w.start(node)
	}
	return w
}

// start gives a node new knowledge, as a restart does.
func (w *trio) start(node string) {
	w.out[node] = &bytes.Buffer{}
	w.nodes[node] = New(Config{
		Self: node, Every: time.Minute,
		Node: one{w, node}, Peers: w,
		Logger: slog.New(slog.NewTextHandler(w.out[node], nil)), Registerer: prometheus.NewRegistry(),
	})
}

func (w *trio) Compare(
	_ context.Context, to string, r *clusterpb.CompareRequest,
) (*clusterpb.CompareReply, error) {
	if w.down[to] {
		return nil, errors.New("it is down")
	}
	return w.nodes[to].Compare(r), nil
}

// one is a node of three, with room enough.
type one struct {
	w    *trio
	node string
}

func (o one) Replicas() []Replica { return []Replica{o.w.copies[o.node]} }
func (one) DiskLow() bool         { return false }
func (one) MemoryFull() string    { return "" }
func (one) Resting() bool         { return false }

// rounds runs n rounds on each node that is up, in turn.
func (w *trio) rounds(n int) {
	for range n {
		for _, node := range voters {
			if !w.down[node] {
				w.nodes[node].round(context.Background())
			}
		}
	}
}

func (w *trio) apply(to uint64) {
	for _, c := range w.copies {
		c.at = to
	}
}

// want checks which replicas each node shows as diverged, and which nodes know that they are outvoted.
func (w *trio) want(t *testing.T, diverged map[string]string, outvoted string) {
	t.Helper()
	for _, node := range voters {
		if w.down[node] {
			continue
		}
		c, got := w.nodes[node], ""
		for _, other := range voters {
			if c.Diverged(3, other) {
				got += other
			}
		}
		assert.Equal(t, got, diverged[node], "%s shows as diverged", node)
		if got, want := c.Outvoted(3, node), strings.Contains(outvoted, node); got != want {
			t.Errorf("%s is outvoted: %v, want %v", node, got, want)
		}
	}
	if t.Failed() {
		for _, node := range voters {
			t.Logf("%s:\n%s", node, w.out[node])
		}
	}
}

func all(nodes string) map[string]string {
	return map[string]string{"a": nodes, "b": nodes, "c": nodes}
}

func TestEqualReplicas(t *testing.T) {
	w := newTrio()
	for i := range uint64(40) {
		w.apply(7 * i)
		w.copies["b"].at -= min(3*i%7, w.copies["b"].at) // behind
		w.rounds(1)
	}
	w.want(t, nil, "")
	for _, node := range voters {
		if w.out[node].Len() > 0 {
			t.Errorf("%s says %s", node, w.out[node])
		}
		// Each node has compared the others at 27 fixed indexes at least.
		if n := testutil.ToFloat64(w.nodes[node].metrics.compared); n < 2*27 {
			t.Errorf("%s compared %v times", node, n)
		}
	}
}

// One replica of three goes wrong, in an idle shard or an active one, on each node in turn.
func TestOneOfThree(t *testing.T) {
	for _, node := range voters {
		for _, step := range []uint64{0, 1, 4, 100} {
			t.Run(fmt.Sprintf("%s by %d", node, step), func(t *testing.T) {
				w := newTrio()
				w.apply(35)
				w.rounds(2)
				w.copies[node].sum = wrongFrom(36)
				w.apply(38)
				for i := range uint64(4) {
					w.apply(38 + (i+1)*step)
					w.rounds(1)
				}
				w.want(t, all(node), node)
				c := w.nodes[node]
				assert.Equal(t, testutil.CollectAndCount(c.metrics.apart), 2, "other nodes in the metrics")
				assert.Equal(t, testutil.ToFloat64(c.metrics.divergences), 2, "divergences counted")
				for other, out := range w.out {
					if got := strings.Count(out.String(), "outvoted="+node); got != 1 {
						t.Errorf("%s told %d times that %s is outvoted:\n%s", other, got, node, out)
					}
					if other != node && !w.nodes[other].Outvoted(3, node) {
						t.Errorf("%s does not know that %s is outvoted", other, node)
					}
				}
			})
		}
	}
}

// A difference ends because the task has gone from all replicas. The wrong replica stays outvoted until it starts
// again.
func TestDifferencePasses(t *testing.T) {
	w := newTrio()
	w.apply(20)
	w.copies["b"].sum = wrongFrom(15)
	w.rounds(3)
	w.want(t, all("b"), "b")
	w.copies["b"].sum = right
	w.apply(25)
	w.rounds(2)
	w.want(t, all("b"), "b")
	if !strings.Contains(w.out["a"].String(), "equal again") {
		t.Errorf("a says %s", w.out["a"])
	}
	w.start("b")
	w.rounds(2)
	w.want(t, nil, "")
	if w.nodes["a"].Outvoted(3, "b") {
		t.Error("a holds b to be outvoted")
	}
}

// A snapshot replaces the wrong state.
func TestRestored(t *testing.T) {
	w := newTrio()
	w.apply(20)
	w.copies["c"].sum = wrongFrom(15)
	w.rounds(3)
	w.want(t, all("c"), "c")
	w.copies["c"].sum = right
	w.copies["c"].restores++
	w.rounds(2)
	w.want(t, nil, "")
}

// With one of three nodes down there is no majority: both remaining replicas are shown. The third decides on its
// return.
func TestUndecided(t *testing.T) {
	w := newTrio()
	w.apply(20)
	w.rounds(1)
	w.down["c"] = true
	w.copies["a"].sum = wrongFrom(25)
	w.copies["a"].at, w.copies["b"].at = 30, 30
	w.rounds(3)
	w.want(t, map[string]string{"a": "ab", "b": "ab"}, "")
	w.down["c"] = false
	w.apply(30)
	w.rounds(3)
	w.want(t, all("a"), "a")
}

// All three differ: all are shown, and none is outvoted.
func TestNoTwoAlike(t *testing.T) {
	w := newTrio()
	w.copies["a"].sum = func(index uint64) uint64 { return index }
	w.copies["b"].sum = wrongFrom(1)
	w.apply(20)
	w.rounds(4)
	w.want(t, all("abc"), "")
}

// A replica that differed for a while, and has no equal at any known index, outvotes no other.
func TestPassedDifferenceOutvotesNobody(t *testing.T) {
	w := newTrio()
	w.copies["a"].sum = func(index uint64) uint64 { return right(index) + 1 - min(index/26, 1) } // wrong up to 25
	w.apply(21)
	w.down["b"] = true // a and c know only each other
	w.rounds(1)
	w.down["b"], w.down["c"] = false, true
	w.copies["c"].at = 22
	w.rounds(1)
	w.apply(27)
	w.copies["c"].at = 22
	w.rounds(1)
	for _, node := range []string{"b", "c"} {
		if w.nodes["a"].shards[3].of(node).outvoted {
			t.Errorf("a has outvoted %s:\n%s", node, w.out["a"])
		}
	}
}

// Checkpoints of a replica that is ahead are kept until this node's replica reaches them.
func TestAhead(t *testing.T) {
	w := newTrio()
	w.copies["a"].at = 25
	w.copies["b"].at, w.copies["b"].sum = 33, wrongFrom(33)
	c := w.nodes["a"]
	c.round(t.Context())
	if got := testutil.ToFloat64(c.metrics.compared); got != 2 {
		t.Errorf("%v compared, want 10 and 20", got)
	}
	w.down["b"] = true
	w.copies["a"].at = 40
	c.round(t.Context())
	if c.Diverged(3, "a") {
		t.Fatal("compared before b has answered again")
	}
	w.down["b"] = false
	w.copies["b"].at, w.copies["b"].sum = 34, right
	c.round(t.Context())
	if got := testutil.ToFloat64(c.metrics.divergences); got != 1 {
		t.Errorf("%v divergences, want that of 33:\n%s", got, w.out["a"])
	}
}
