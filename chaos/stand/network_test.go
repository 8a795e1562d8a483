package stand

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// The leader of a shard is cut off from the other nodes in both directions. The others go on without it. It refuses
// calls that it cannot commit, and catches up when the network is whole again.
func TestLeaderIsCutOff(t *testing.T) {
	localtest.Need(t)
	gated.NeedRoot(t, netlab.Supported)
	s, err := Open(t.Context(), Config{
		Binary: localtest.Build(t), Dir: t.TempDir(), Shards: 1, Network: true,
	})
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, s.Close(), nil)
	}()
	came := receive(t, s.ReceiverHost())
	scheduleAt(t, s, s.Names()[0], "before", came.url)
	came.await(t, "before")

	leader := awaitLeader(t, s)
	others := without(s.Names(), leader)
	for _, other := range others {
		s.Network.Impair(leader, other, netlab.Quality{Cut: true})
		s.Network.Impair(other, leader, netlab.Quality{Cut: true})
	}
	began := time.Now()
	if err := schedule(t.Context(), s, others[0], "under-way", came.url); err != nil && !refused(err) {
		t.Errorf("a call on its way to the leader was answered with %v", err)
	}
	if took := time.Since(began); took > underWay {
		t.Errorf("a call on its way to the leader was answered after %v", took)
	}
	awaitWrite(t, s, others[0], "meanwhile", came.url)
	came.await(t, "meanwhile")
	if err := schedule(t.Context(), s, leader, "refused", came.url); !refused(err) {
		t.Errorf("a leader without a majority answered a schedule with %v", err)
	}

	assert.NoError(t, s.Network.Heal())
	awaitWrite(t, s, leader, "after", came.url)
	came.await(t, "after")
	awaitEqualReplicas(t, s)
}

// underWay is the longest time of a call on its way to a leader that is cut off. The leader's connection is given up
// after two seconds. Without that the call would wait for ten.
const underWay = 6 * time.Second

// refused reports whether an error is a 503 or a 504.
func refused(err error) bool {
	var problem *client.Error
	return errors.As(err, &problem) &&
		(problem.Status == http.StatusServiceUnavailable || problem.Status == http.StatusGatewayTimeout)
}

func nodeClient(s *Stand, node string, timeout time.Duration) (*client.Client, error) {
	for _, n := range s.Cluster.Nodes() {
		if n.Name == node {
			return client.New(client.Config{Addrs: []string{"http://" + n.HTTPAddr}, KeyFile: n.KeyFile, MaxAttempts: 1,
				Timeout: timeout, AttemptTimeout: timeout, FixedAddrs: true, SingleCalls: true})
		}
	}
	return nil, fmt.Errorf("there is no node %q", node)
}

// schedule schedules a task that is due at once, through one node.
func schedule(ctx context.Context, s *Stand, node, id, url string) error {
	c, err := nodeClient(s, node, 15*time.Second)
	if err != nil {
		return err
	}
	_, err = c.Schedule(ctx, client.Task{ID: id, Target: &client.Target{URL: url}})
	return err
}

func scheduleAt(t *testing.T, s *Stand, node, id, url string) {
	t.Helper()
	assert.NoError(t, schedule(t.Context(), s, node, id, url), "%s through %s", id, node)
}

const patience = time.Minute

// until polls until done returns no error. It fails the test with the last error after patience.
func until(t *testing.T, what string, done func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

func awaitWrite(t *testing.T, s *Stand, node, id, url string) {
	t.Helper()
	until(t, id+" through "+node, func() error { return schedule(t.Context(), s, node, id, url) })
}

func awaitLeader(t *testing.T, s *Stand) (leader string) {
	t.Helper()
	until(t, "a leader", func() error {
		leaders, err := s.Leaders(t.Context())
		if leader = leaders[1]; err == nil && leader == "" {
			err = errors.New("none is known")
		}
		return err
	})
	return leader
}

func awaitEqualReplicas(t *testing.T, s *Stand) {
	t.Helper()
	until(t, "equal replicas", func() error {
		view, err := s.client.Cluster(t.Context())
		if err != nil {
			return err
		}
		for _, shard := range view.Shards {
			if len(shard.Replicas) != len(s.Names()) {
				return fmt.Errorf("shard %d: %+v", shard.ID, shard.Replicas)
			}
			for _, r := range shard.Replicas {
				if r.Applied == 0 || r.Applied != shard.Replicas[0].Applied {
					return fmt.Errorf("shard %d: %+v", shard.ID, shard.Replicas)
				}
			}
		}
		return nil
	})
}

// arrivals is a receiver that reports the ids of the tasks that arrive.
type arrivals struct {
	url string
	ids chan string
}

func receive(t *testing.T, host string) *arrivals {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	assert.NoError(t, err)
	a := &arrivals{url: "http://" + l.Addr().String(), ids: make(chan string, 100)}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { a.ids <- r.Header.Get("ce-subject") })}
	go func() {
		assert.ErrorIs(t, server.Serve(l), http.ErrServerClosed)
	}()
	t.Cleanup(func() { _ = server.Close() })
	return a
}

func (a *arrivals) await(t *testing.T, id string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case came := <-a.ids:
			if came == id {
				return
			}
		case <-deadline.C:
			t.Fatalf("%s was not delivered", id)
		}
	}
}

func without(names []string, name string) []string {
	var others []string
	for _, n := range names {
		if n != name {
			others = append(others, n)
		}
	}
	return others
}

// All nodes lose their power at once, again and again. Every acknowledged task is there afterwards.
func TestPowerLossOfAllNodes(t *testing.T) {
	localtest.Need(t)
	gated.NeedRoot(t, lossyfs.Supported)
	s, err := Open(t.Context(), Config{
		Binary: localtest.Build(t), Dir: t.TempDir(), Shards: 1, Disks: true,
	})
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, s.Close(), nil)
	}()
	came := receive(t, s.ReceiverHost())
	for i := range 3 {
		id := fmt.Sprintf("task-%d", i)
		awaitWrite(t, s, s.Names()[i%3], id, came.url)
		assert.NoError(t, s.Kill(s.Names()...))
		for _, d := range s.Disks {
			assert.NoError(t, d.PowerLoss())
		}
		assert.NoError(t, s.Start(s.Names()...))
		came.await(t, id)
	}
	awaitEqualReplicas(t, s)
}
