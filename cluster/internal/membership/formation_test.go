package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// memory is a record without a disk, with the same rules as Identity. It outlives its node's crashes.
type memory struct {
	mu      sync.Mutex
	id      string
	promise *Promise
	cluster string
	given   []Promise // every promise ever given: one at most
}

func (m *memory) NodeID() string { return m.id }

func (m *memory) ClusterID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cluster
}

func (m *memory) Promised() (Promise, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.promise == nil {
		return Promise{}, false
	}
	return *m.promise, true
}

func (m *memory) Give(p Promise) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.promise != nil && m.promise.Equal(p) {
		return nil
	}
	if m.promise != nil || m.cluster != "" {
		return errPromised
	}
	m.promise = &p
	m.given = append(m.given, p)
	return nil
}

func (m *memory) Enter(id string) error        { return m.enter(id, false) }
func (m *memory) EnterInstead(id string) error { return m.enter(id, true) }

func (m *memory) enter(id string, void bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cluster != "" && m.cluster != id {
		return fmt.Errorf("in %s already", m.cluster)
	}
	if !void && m.promise != nil && m.promise.ClusterID != id {
		return errPromised
	}
	m.cluster = id
	return nil
}

// mesh is a set of nodes that may see only some of each other.
type mesh struct {
	records map[string]*memory
	expect  map[string]int
	sees    func(who, whom string) bool
	reaches func(who, whom string) bool
}

func newMesh(expect int, ids ...string) *mesh {
	always := func(string, string) bool { return true }
	m := &mesh{records: make(map[string]*memory), expect: make(map[string]int), sees: always, reaches: always}
	for _, id := range ids {
		m.records[id] = &memory{id: id}
		m.expect[id] = expect
	}
	return m
}

var errUnreachable = errors.New("not reached")

func (m *mesh) config(id string) formationConfig {
	return formationConfig{
		Record: m.records[id], Expect: m.expect[id], Nodes: meshNode{m, id}, Logger: slog.New(slog.DiscardHandler),
	}
}

// meshNode is the mesh as one of its nodes sees it.
type meshNode struct {
	*mesh
	id string
}

func (n meshNode) watch() (members []*clusterpb.GossipMeta, _ <-chan struct{}) {
	for other, r := range n.records {
		if other == n.id || n.sees(n.id, other) {
			members = append(members, &clusterpb.GossipMeta{
				Id: other, ClusterId: r.ClusterID(), BootstrapExpect: uint32(n.expect[other])})
		}
	}
	return members, nil
}

func (n meshNode) askPromise(_ context.Context, node string, p Promise) (*clusterpb.PromiseReply, error) {
	if !n.reaches(n.id, node) {
		return nil, errUnreachable
	}
	return AnswerPromise(n.records[node], n.expect[node], p)
}

func (n meshNode) registerThrough(_ context.Context, node string) (string, error) {
	if !n.reaches(n.id, node) {
		return "", errUnreachable
	}
	return n.records[node].ClusterID(), nil
}

// joining is a node that is asked for a promise while it joins another cluster, and that gets no promise itself.
type joining struct {
	meshNode
	cluster string
	promise Promise // given meanwhile
}

func (j joining) askPromise(context.Context, string, Promise) (*clusterpb.PromiseReply, error) {
	return nil, errUnreachable
}

func (j joining) registerThrough(context.Context, string) (string, error) {
	return j.cluster, j.records[j.id].Give(j.promise)
}

// run runs all nodes for a minute of the bubble's clock.
func (m *mesh) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for id := range m.records {
		wg.Go(func() {
			if err := form(ctx, m.config(id)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wg.Wait()
}

func (m *mesh) clusters() map[string][]string {
	found := make(map[string][]string)
	for id, r := range m.records {
		found[r.cluster] = append(found[r.cluster], id)
	}
	for _, ids := range found {
		slices.Sort(ids)
	}
	return found
}

func TestNodesFormOneCluster(t *testing.T) {
	for expect, ids := range map[int][]string{1: {"a"}, 3: {"a", "b", "c"}, 5: {"a", "b", "c", "d", "e"}} {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(expect, ids...)
			m.run(t)
			for cluster, members := range m.clusters() {
				if cluster == "" || !slices.Equal(members, ids) {
					t.Errorf("cluster %q: %v", cluster, members)
				}
			}
		})
	}
}

func TestTooFewNodesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(3, "a", "b")
		m.expect["c"], m.records["c"] = 0, &memory{id: "c"} // it joins, and is none of the three
		m.run(t)
		got := m.clusters()
		assert.Equal(t, len(got[""]), 3, "formed %v", got)
	})
}

func TestLaterNodesJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(3, "a", "b", "c")
		m.run(t)
		m.records["d"], m.expect["d"] = &memory{id: "d"}, 0 // joins only
		m.records["e"], m.expect["e"] = &memory{id: "e"}, 3 // started like the first three
		m.run(t)
		if got := m.clusters(); len(got) != 1 || len(got[""]) != 0 {
			t.Errorf("clusters %v", got)
		}
		assert.Equal(t, len(m.records["d"].given)+len(m.records["e"].given), 0, "a later node promised something")
	})
}

// Two nodes see different lists that share a node. One cluster is formed; the node left over joins it.
func TestOverlappingLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(3, "a", "b", "c", "d")
		began := time.Now()
		m.sees = func(who, whom string) bool {
			if time.Since(began) > 10*time.Second {
				return true
			}
			return !(who == "a" && whom == "d") && !(who == "b" && whom == "a")
		}
		m.run(t)
		got := m.clusters()
		if len(got) != 1 || len(got[""]) != 0 {
			t.Errorf("clusters %v; promises %v", got, m.records["c"].given)
		}
	})
}

// overtaken is a node that gives another proposer its promise just before its own.
type overtaken struct {
	*memory
	asked Promise
}

func (o *overtaken) Give(p Promise) error {
	return errors.Join(o.memory.Give(o.asked), o.memory.Give(p))
}

// A proposer that is asked for its promise just before it gives its own keeps the promise that it was asked for.
func TestProposerIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(1, "a")
		cfg := m.config("a")
		cfg.Record = &overtaken{m.records["a"], Promise{ClusterID: "theirs", Nodes: []string{"a"}}}
		if err := form(t.Context(), cfg); err != nil || m.records["a"].cluster != "theirs" {
			t.Errorf("in cluster %q: %v", m.records["a"].cluster, err)
		}
	})
}

// A proposer that dies after any of its steps, and returns, does not begin another cluster.
func TestProposerComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(3, "a", "b", "c")
		m.reaches = func(who, whom string) bool { return whom != "c" }
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := form(ctx, m.config("a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("formed without c: %v", err)
		}
		first := m.records["a"].given
		m.reaches = func(string, string) bool { return true }
		m.run(t)
		if got := m.clusters(); len(got) != 1 || len(got[first[0].ClusterID]) != 3 {
			t.Errorf("clusters %v, first promised %v", got, first)
		}
	})
}

// Gossip alone does not bring a node that has promised into a cluster, since any sender may announce one.
func TestForgedClusterIsNotEntered(t *testing.T) {
	m := newMesh(3, "a", "b", "c")
	m.reaches = func(string, string) bool { return false }
	promise := Promise{ClusterID: NewID(), Nodes: []string{"a", "b", "c"}}
	assert.NoError(t, m.records["b"].Give(promise))
	f := &formation{formationConfig: m.config("b")}
	forged := []*clusterpb.GossipMeta{{Id: "c", ClusterId: promise.ClusterID}}
	if _, err := f.step(t.Context(), forged); err != nil || m.records["b"].cluster != "" {
		t.Errorf("entered cluster %q, %v", m.records["b"].cluster, err)
	}
	m.reaches = func(string, string) bool { return true }
	m.records["c"].cluster = promise.ClusterID
	if _, err := f.step(t.Context(), nil); err != nil || m.records["b"].cluster != promise.ClusterID {
		t.Errorf("entered cluster %q although a node of the list is a member, %v", m.records["b"].cluster, err)
	}
}

// No node gives two promises, and no two clusters are formed of lists that share a node, whatever nodes see and reach,
// and whichever nodes crash.
func TestNeverTwoClustersOfOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := strings.Split("abcdef", "")[:rapid.IntRange(3, 6).Draw(t, "nodes")]
		m := newMesh(3, ids...)
		formations := make(map[string]*formation)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			who := rapid.SampledFrom(ids).Draw(t, "who")
			seen := rapid.SliceOfDistinct(rapid.SampledFrom(ids), rapid.ID[string]).Draw(t, "seen")
			reached := rapid.SliceOfDistinct(rapid.SampledFrom(ids), rapid.ID[string]).Draw(t, "reached")
			m.sees = func(_, whom string) bool { return slices.Contains(seen, whom) }
			m.reaches = func(_, whom string) bool { return slices.Contains(reached, whom) }
			if formations[who] == nil || rapid.Bool().Draw(t, "crash") {
				formations[who] = &formation{formationConfig: m.config(who)}
			}
			if m.records[who].cluster != "" {
				continue
			}
			members, _ := formations[who].Nodes.watch()
			_, err := formations[who].step(context.Background(), members)
			assert.NoError(t, err)
			check(t, m)
		}
	})
}

func check(t *rapid.T, m *mesh) {
	formed := make(map[string][]string) // cluster id → list, of clusters that have a node
	for _, r := range m.records {
		if len(r.given) > 1 {
			t.Fatalf("node %s promised %v", r.id, r.given)
		}
		if r.cluster == "" {
			continue
		}
		for _, other := range m.records {
			if other.promise != nil && other.promise.ClusterID == r.cluster {
				formed[r.cluster] = other.promise.Nodes
			}
		}
		if formed[r.cluster] == nil {
			t.Fatalf("node %s is in cluster %s, which nobody promised", r.id, r.cluster)
		}
	}
	for a, listA := range formed {
		for _, node := range listA {
			if p := m.records[node].promise; p == nil || p.ClusterID != a {
				t.Fatalf("cluster %s was formed without the promise of %s", a, node)
			}
		}
	}
}

// A node that is asked for its promise while it joins elsewhere keeps the promise.
func TestPromiseGivenWhileJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(3, "a")
		other := NewID()
		m.records["z"], m.expect["z"] = &memory{id: "z", cluster: other}, 0
		promise := Promise{ClusterID: NewID(), Nodes: []string{"a", "b", "c"}}
		cfg := m.config("a")
		cfg.Nodes = joining{meshNode{m, "a"}, other, promise}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := form(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) || m.records["a"].cluster != "" {
			t.Errorf("entered %q: %v", m.records["a"].cluster, err)
		}
	})
}
