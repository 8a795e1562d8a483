package redisapi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
)

// program is the side of a Redis client: it goes to another node when one is gone, and repeats what was not carried out.
type program struct {
	nodes []func(context.Context) (redis.Conn, error) // connect to the nodes
	ctx   context.Context
	conn  redis.Conn // nil: none is open
	node  int
}

// do returns the answer to a command. sure is false if it is unknown whether the command was carried out.
func (p *program) do(name string, args ...any) (answer any, sure bool) {
	for p.ctx.Err() == nil {
		if p.conn == nil {
			p.node = (p.node + 1) % len(p.nodes)
			var err error
			if p.conn, err = p.nodes[p.node](p.ctx); err != nil {
				p.conn = nil
				time.Sleep(10 * time.Millisecond)
				continue
			}
		}
		answer, err := p.conn.Do(name, args...)
		switch {
		case err == nil:
			return answer, true
		case strings.HasPrefix(err.Error(), "TRYAGAIN "):
			time.Sleep(10 * time.Millisecond)
			continue
		case p.conn.Err() != nil: // broken
			p.close()
		}
		return err, false
	}
	return p.ctx.Err(), false
}

func (p *program) close() {
	if p.conn != nil {
		_ = p.conn.Close() // its node may be gone
	}
	p.conn = nil
}

// ledger is what the programs have done.
type ledger struct {
	enough   chan struct{} // closed when no more are to be added
	mu       sync.Mutex
	due      map[string]time.Time // of the members whose ZADD was answered
	claimed  map[string]int
	unknown  map[string]bool // members whose claim was not answered
	early    []string
	finished bool // no more are added
}

func (l *ledger) claim(member string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimed[member]++
	var due int64
	if _, err := fmt.Sscanf(member, "%d/", &due); err != nil || now.UnixMilli() < due {
		l.early = append(l.early, member)
	}
}

// produce adds members, whose names begin with their due times, until there are enough.
func (l *ledger) produce(p *program, name string) {
	defer p.close()
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.enough:
			return
		case <-pace.C:
		}
		due := time.Now().Add(time.Duration(rand.N(2000)) * time.Millisecond).Truncate(time.Millisecond)
		member := fmt.Sprintf("%d/%s/%d", due.UnixMilli(), name, n)
		score := float64(due.UnixMilli()) / 1000
		if answer, sure := p.do("ZADD", "jobs", "NX", score, member); sure && answer == int64(1) {
			l.mu.Lock()
			l.due[member] = due
			l.mu.Unlock()
		}
	}
}

// work claims due members by ZREM until none is left after the end of the producers.
func (l *ledger) work(t *testing.T, p *program) {
	defer p.close()
	for {
		l.mu.Lock()
		finished := l.finished
		l.mu.Unlock()
		answer, sure := p.do("ZRANGEBYSCORE", "jobs", "-inf", at(0), "LIMIT", 0, 10)
		if !sure {
			continue
		}
		members, err := redis.Strings(answer, nil)
		assert.NoError(t, err)
		if finished && len(members) == 0 {
			return
		}
		for _, member := range members {
			answer, sure := p.do("ZREM", "jobs", member)
			if !sure {
				l.mu.Lock()
				l.unknown[member] = true
				l.mu.Unlock()
			} else if answer == int64(1) {
				l.claim(member, time.Now())
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// pop takes due members by ZPOPMIN, as work does by ZREM. A lost answer may have had any member.
func (l *ledger) pop(t *testing.T, p *program) (lost int) {
	defer p.close()
	for {
		l.mu.Lock()
		finished := l.finished
		l.mu.Unlock()
		answer, sure := p.do("ZPOPMIN", "jobs", 1)
		if !sure {
			lost++
			continue
		}
		popped, err := redis.Strings(answer, nil)
		assert.NoError(t, err)
		if len(popped) == 2 {
			l.claim(popped[0], time.Now())
		} else if finished {
			return lost
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// membersPerKill is the number of members that are added between two kills, at least.
const membersPerKill = 150

// await waits until n members were added.
func (l *ledger) await(ctx context.Context, n int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		l.mu.Lock()
		added := len(l.due)
		l.mu.Unlock()
		if added >= n {
			return
		}
		<-tick.C
	}
}

// playKills kills leaders by kill while programs add members and workers claim them. rests waits until no task is left.
// Nothing that was answered is lost, nothing is claimed early, and nothing twice.
func playKills(t *testing.T, nodes []func(context.Context) (redis.Conn, error), kills int, kill, rests func()) {
	l := &ledger{
		enough: make(chan struct{}), due: map[string]time.Time{}, claimed: map[string]int{}, unknown: map[string]bool{},
	}
	lost := 0
	var producers, workers sync.WaitGroup
	for i := range nodes {
		producers.Go(func() { l.produce(&program{nodes: nodes, ctx: t.Context(), node: i}, fmt.Sprint(i)) })
		workers.Go(func() { l.work(t, &program{nodes: nodes, ctx: t.Context(), node: i}) })
	}
	workers.Go(func() { lost = l.pop(t, &program{nodes: nodes, ctx: t.Context()}) })
	for i := range kills {
		l.await(t.Context(), (i+1)*membersPerKill)
		kill()
	}
	close(l.enough)
	producers.Wait()
	rests()
	l.mu.Lock()
	l.finished = true
	l.mu.Unlock()
	workers.Wait()

	missing := 0
	for member := range l.due {
		if l.claimed[member] == 0 && !l.unknown[member] {
			missing++
		}
	}
	if missing > lost {
		t.Errorf("%d members are lost, and %d answers to ZPOPMIN", missing, lost)
	}
	for member, n := range l.claimed {
		if n > 1 {
			t.Errorf("%s was claimed %d times", member, n)
		}
	}
	if len(l.early) > 0 {
		t.Errorf("claimed early: %v", l.early)
	}
	t.Logf("%d added, %d claimed, %d claims and %d pops unanswered", len(l.due), len(l.claimed), len(l.unknown), lost)
	if len(l.claimed) < kills*membersPerKill*9/10 {
		t.Errorf("%d were claimed: too few to show anything", len(l.claimed))
	}
}

// TestClaimsOutliveKilledLeaders kills the leader of a shard twice, in simulated time.
func TestClaimsOutliveKilledLeaders(t *testing.T) {
	simulate(t, 3, nil, func(t *testing.T, w *world) {
		var nodes []func(context.Context) (redis.Conn, error)
		for i := range w.addrs {
			nodes = append(nodes, func(ctx context.Context) (redis.Conn, error) { return w.dial(ctx, i) })
		}
		const pause = 1500 * time.Millisecond
		playKills(t, nodes, 2, func() {
			time.Sleep(pause)
			view, err := w.calls.Cluster(t.Context())
			assert.NoError(t, err)
			leader := view.Shards[0].Leader
			i := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return w.Node(i).ID() == leader })
			if i < 0 {
				t.Fatalf("no node has the id %q", leader)
			}
			w.Kill(i)
			time.Sleep(pause)
			w.Restart(i)
			time.Sleep(pause)
		}, func() { time.Sleep(time.Minute) }) // until the last are due, and the leases of a lost ZPOPMIN have ended
		w.conn(0).want("0", "ZCARD", "jobs")
	})
}

// TestServerClaimsOutliveKills kills the processes of leaders by SIGKILL, ten times.
func TestServerClaimsOutliveKills(t *testing.T) {
	wantPart(t, "belfry")
	var places []local.Place
	var nodes []func(context.Context) (redis.Conn, error)
	addrs, err := local.FreeAddrs(3)
	assert.NoError(t, err)
	for _, addr := range addrs {
		places = append(places, local.Place{Args: []string{"--redis", addr, "--redis-scores", "seconds"}})
		nodes = append(nodes, func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, redis.DialReadTimeout(20*time.Second))
		})
	}
	cluster, err := local.Start(t.Context(), local.Config{
		Nodes: 3, Places: places, DataDir: t.TempDir(), Binary: os.Getenv("BELFRY_BINARY"), StartTimeout: time.Hour,
	})
	assert.NoError(t, err)
	t.Cleanup(cluster.Stop)
	calls, err := client.New(client.Config{Addrs: cluster.URLs()})
	assert.NoError(t, err)
	t.Cleanup(calls.Close)
	kill := func() {
		var leader string
		importstest.Await(t, func() error {
			view, err := calls.Cluster(t.Context())
			if err != nil {
				return err
			}
			n := view.Node(view.Shards[0].Leader)
			if n == nil {
				return errors.New("the first shard has no leader")
			}
			leader = n.Name
			return nil
		})
		assert.NoError(t, cluster.Kill(leader))
		assert.NoError(t, cluster.StartNode(t.Context(), leader))
	}
	playKills(t, nodes, 10, kill, func() {
		importstest.Await(t, func() error {
			q, err := calls.Queue(t.Context(), "jobs")
			if err == nil && q.Counts.Unfinished() > 0 {
				err = fmt.Errorf("%d tasks are unfinished", q.Counts.Unfinished())
			}
			return err
		})
	})
}
