package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
	"github.com/belfryhq/belfry/node/nodetest"
)

// form is the way in which the scenarios are played.
type form int

const (
	simulated form = iota // nodes in memory, in simulated time, held to exact times
	alone                 // nodes in processes, on an idle machine, held to a second
	long                  // the same with large numbers, held to the promised times
)

// pick returns short or inLong, by the form of the stage.
func pick[T any](s *stage, short, inLong T) T {
	if s.form == long {
		return inLong
	}
	return short
}

// fewer returns n of a real form, and only a part of it in simulated time: no machine is to be kept busy.
func fewer(s *stage, n, part int) int {
	if s.form == simulated {
		return n / part
	}
	return n
}

// whenever is the bound for tasks whose time is not judged.
const whenever = time.Duration(math.MaxInt64)

// exactly is the lateness of a task in simulated time: all that follows its due time is done by goroutines that wait for
// each other alone.
const exactly = 0

// bound returns the lateness that one task in a hundred may exceed.
func (s *stage) bound(short, inLong time.Duration) time.Duration {
	if s.form == simulated {
		return exactly
	}
	return pick(s, short, inLong)
}

// stage is the nodes of scenarios. Each scenario has queues and ids of its own.
type stage struct {
	form      form
	client    *client.Client // through any node
	nodes     []node
	serial    atomic.Int64
	processes *local.Cluster    // nil: the nodes are in memory
	simulated *nodetest.Cluster // nil: the nodes are processes
	memory    *memnet.Network   // of the simulated nodes; nil: the system's
}

// simulate starts three nodes in memory. It must be called in a bubble.
func simulate(t *testing.T) *stage {
	t.Helper()
	cluster := nodetest.Start(t, 3, nil)
	s := &stage{simulated: cluster, memory: cluster.Network, client: cluster.Client(client.Config{})}
	callers := cluster.HTTP()
	for i, url := range cluster.URLs() {
		s.nodes = append(s.nodes, node{name: nodetest.Name(i), url: url, callers: callers})
	}
	s.awaitLeaders(t)
	return s
}

// setStage starts three nodes in processes of their own.
func setStage(t *testing.T, as form) *stage {
	t.Helper()
	cluster, err := local.Start(t.Context(), local.Config{
		Binary: localtest.Build(t), DataDir: t.TempDir(), ExtraArgs: []string{"--shards", "12"},
	})
	assert.NoError(t, err)
	t.Cleanup(cluster.Stop)
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, cluster)
		}
	})
	c, err := client.New(client.Config{Addrs: cluster.URLs()})
	assert.NoError(t, err)
	t.Cleanup(c.Close)
	s := &stage{form: as, processes: cluster, client: c}
	// The callers' connections are apart from the client's.
	callers := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 10 * time.Second}}
	for i, url := range cluster.URLs() {
		s.nodes = append(s.nodes, node{name: cluster.Nodes()[i].Name, url: url, callers: callers})
	}
	s.awaitLeaders(t)
	return s
}

// kill ends a node as kill -9 does.
func (s *stage) kill(t testing.TB, name string) {
	t.Helper()
	if s.simulated != nil {
		s.simulated.Kill(s.simulated.Index(name))
		return
	}
	assert.NoError(t, s.processes.Kill(name))
}

// restart starts a node that was killed.
func (s *stage) restart(t testing.TB, name string) {
	t.Helper()
	if s.simulated != nil {
		s.simulated.Restart(s.simulated.Index(name))
		return
	}
	assert.NoError(t, s.processes.StartNode(t.Context(), name))
}

// freeAddr returns an address that no socket has or takes. Among real ones it is below the range of outgoing
// connections, so that it stays free while a receiver is down.
func (s *stage) freeAddr(t testing.TB) string {
	t.Helper()
	if s.memory != nil {
		return s.memory.Addr()
	}
	const first, end, tries = 12000, 20000, 100
	for range tries {
		addr := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(end-first))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// listen opens a listener for a receiver.
func (s *stage) listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	var l net.Listener
	var err error
	if s.memory != nil {
		l, err = s.memory.ListenTCP(addr)
	} else {
		l, err = net.Listen("tcp", addr)
	}
	assert.NoError(t, err)
	return l
}

// dial returns the function by which an HTTP transport connects; nil: the system's.
func (s *stage) dial() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.memory == nil {
		return nil
	}
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return s.memory.Dial(ctx, addr) }
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
	assert.NoError(t, err)
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
	assert.NoError(t, err)
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

const askEvery = 50 * time.Millisecond

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
