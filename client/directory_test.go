package client

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

// hosts returns the hosts of the batches from the n-th on.
func (w *world) hosts(n int) string {
	var hosts []string
	for _, b := range w.sent()[n:] {
		hosts = append(hosts, b.host)
	}
	return strings.Join(hosts, " ")
}

// touchAll touches a task of each shard, one after the other.
func (w *world) touchAll(c *Client) {
	w.t.Helper()
	for i := range w.view.Shards {
		_, err := c.Touch(w.t.Context(), w.idIn(i+1, 0), Touch{})
		assert.Equal(w.t, err, nil)
	}
}

// learned waits until the client has learned the map.
func learned() {
	time.Sleep(2 * maxLook) // in a bubble
	synctest.Wait()
}

// TestCallsGoToLeaders checks that the first call goes to a configured address, and later calls to the leaders.
func TestCallsGoToLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1", "c:1")
		c := w.client(Config{Addrs: []string{"b:1"}})
		w.touchAll(c)
		if !strings.HasPrefix(w.hosts(0), "b:1") {
			t.Errorf("first asked: %s", w.hosts(0))
		}
		learned()
		before := len(w.sent())
		w.touchAll(c)
		assert.Equal(t, w.hosts(before), "a:1 b:1 c:1", "asked")
		assert.Equal(t, w.countRequests("/v1/map"), 1, "the map was asked for N times")
		if _, err := c.Get(t.Context(), w.idIn(3, 0)); err != nil || w.countRequests("GET c:1/v1/tasks/") != 1 {
			t.Errorf("a read of its own did not go to the leader: %v", err)
		}
	})
}

// TestStaleMap checks that the client learns the map again when an answer shows a change, while calls continue.
func TestStaleMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1")
		c := w.client(Config{Addrs: []string{"a:1"}})
		w.touchAll(c)
		learned()
		w.change(func() {
			w.view.Version = "m2"
			w.view.Shards = slices.Clone(w.view.Shards)
			w.view.Shards[0].Leader, w.view.Shards[1].Leader = "n2", "n1"
		})
		before := len(w.sent())
		w.touchAll(c)
		learned()
		w.touchAll(c)
		if got := w.hosts(before); !strings.HasPrefix(got, "a:1 ") || !strings.HasSuffix(got, " b:1 a:1") {
			t.Errorf("asked %s", got)
		}
		// A client does not ask all the time while nodes disagree for long.
		w.change(func() { w.nodes["a:1"].version = "another" })
		earlier := w.countRequests("/v1/map")
		for range 1000 {
			w.touchAll(c)
			time.Sleep(100 * time.Millisecond)
		}
		if n := w.countRequests("/v1/map") - earlier; n > 15 {
			t.Errorf("asked %d times in 100 seconds", n)
		}
	})
}

// TestLeadersThatAreNotThere checks that a leader's address that is unreachable, or another node's, is not used, and is
// retried at growing intervals.
func TestLeadersThatAreNotThere(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"no answer":       func(w *world) { w.nodes["b:1"].down = errors.New("no route to host") },
		"another cluster": func(w *world) { w.nodes["b:1"].cluster = "c2" },
		"another node":    func(w *world) { w.nodes["b:1"].id = "n3" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a:1", "b:1")
				spoil(w)
				c := w.client(Config{Addrs: []string{"a:1"}})
				const calls = 3600
				for range calls {
					w.touchAll(c)
					time.Sleep(time.Second)
				}
				if hosts := w.hosts(0); strings.Contains(hosts, "b:1") {
					t.Errorf("asked %s", hosts)
				}
				if n := w.countRequests("GET b:1"); n < 5 || n > 20 {
					t.Errorf("tried %d times in an hour", n)
				}
				w.change(func() { *w.nodes["b:1"] = worldNode{id: "n2", cluster: "c1"} })
				for range 2 * maxBan / time.Second {
					w.touchAll(c)
					time.Sleep(time.Second)
				}
				before := len(w.sent())
				w.touchAll(c)
				assert.Equal(t, w.hosts(before), "a:1 b:1", "after the leader appears: asked")
			})
		})
	}
}

// TestLeaderDies checks that a dead leader costs its callers a repeat through another node, and gets no calls while it
// is dead.
func TestLeaderDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1", "c:1")
		c := w.client(Config{Addrs: []string{"a:1", "b:1"}})
		w.touchAll(c)
		learned()
		w.change(func() { w.nodes["c:1"].down = errors.New("connection refused") })
		before := len(w.sent())
		w.touchAll(c)
		w.touchAll(c)
		assert.Equal(t, w.hosts(before), "a:1 b:1 c:1 a:1 a:1 b:1 a:1", "asked")
		w.change(func() { w.nodes["c:1"].down = nil })
		time.Sleep(2 * minBan)
		w.touchAll(c) // shows that the address may be retried
		learned()
		before = len(w.sent())
		w.touchAll(c)
		assert.Equal(t, w.hosts(before), "a:1 b:1 c:1", "after the leader returns: asked")
	})
}

// TestNoOtherAddresses checks that only the configured addresses are used with fixed addresses, behind TLS or a path,
// and where nodes do not know their addresses.
func TestNoOtherAddresses(t *testing.T) {
	for _, cfg := range []Config{
		{Addrs: []string{"a:1"}, FixedAddrs: true}, {Addrs: []string{"https://a:1"}}, {Addrs: []string{"a:1", "http://a:1/belfry"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "a:1", "b:1")
			c := w.client(cfg)
			w.touchAll(c)
			learned()
			w.touchAll(c)
			if got := w.hosts(0); got != "a:1 a:1 a:1 a:1" || w.countRequests("b:1") > 0 {
				t.Errorf("%v: asked %s", cfg.Addrs, got)
			}
		})
	}
	for _, addr := range []string{"0.0.0.0:8400", "[::]:8400", ":8400", "b:0", "b"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "a:1", "b:1")
			w.view.Nodes[1].URL = "http://" + addr
			c := w.client(Config{Addrs: []string{"a:1"}})
			w.touchAll(c)
			learned()
			w.touchAll(c)
			assert.Equal(t, w.hosts(0), "a:1 a:1 a:1 a:1", "%s: asked", addr)
		})
	}
}

// TestNoMap checks that calls work with a service that reports no slots.
func TestNoMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1")
		w.view.Shards[1].Slots = nil
		c := w.client(Config{Addrs: []string{"a:1"}})
		for i := range 200 {
			_, err := c.Touch(t.Context(), fmt.Sprint("t", i), Touch{})
			assert.Equal(t, err, nil)
			time.Sleep(time.Second)
		}
		if hosts := w.hosts(0); strings.Contains(hosts, "b:1") || w.countRequests("/v1/map") > 15 {
			t.Errorf("asked %d times for the map", w.countRequests("/v1/map"))
		}
	})
}

// hang makes each node hold every batch with a line of that shard, as a node does while the shard has no leader.
func (w *world) hang(shard int) (release func()) {
	hold := make(chan struct{})
	slots := w.view.Shards[shard-1].Slots[0]
	for _, n := range w.nodes {
		n.hold = hold
		n.held = func(b *sentBatch) bool {
			return slices.ContainsFunc(b.lines, func(l sentLine) bool {
				at := uint32(contract.SlotOf("", l.ID))
				return slots.First <= at && at < slots.End
			})
		}
	}
	return func() { close(hold) }
}

// TestShardInTrouble checks that a shard without a leader delays the others' calls only for a moment, at any node.
func TestShardInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1")
		c := w.client(Config{Addrs: []string{"a:1"}, FixedAddrs: true, AttemptTimeout: time.Minute, Timeout: time.Minute})
		w.touchAll(c)
		learned()
		release := w.hang(1)
		stuck := make(chan error, 20)
		for i := range cap(stuck) {
			go func() {
				_, err := c.Touch(t.Context(), w.idIn(1, i), Touch{})
				stuck <- err
			}()
		}
		synctest.Wait()
		began := time.Now()
		for i := range 100 {
			_, err := c.Touch(t.Context(), w.idIn(2, i), Touch{})
			assert.NoError(t, err)
		}
		if took := time.Since(began); took > 2*slowAfter {
			t.Errorf("calls to a healthy shard took %v", took)
		}
		time.Sleep(30 * time.Second)
		before := len(w.sent())
		release()
		for range cap(stuck) {
			assert.Equal(t, <-stuck, nil)
		}
		if n := before - 2 - 100; n > 1+maxSlow+1 {
			t.Errorf("%d requests for the shard in trouble", n)
		}
		// After a fast answer the shard's lines travel with the others again.
		w.touchAll(c)
		before = len(w.sent())
		hold := make(chan struct{})
		w.change(func() {
			w.nodes["a:1"].hold = hold
			w.nodes["a:1"].held = nil
		})
		done := make(chan struct{})
		for _, id := range []string{w.idIn(2, 0), w.idIn(1, 1), w.idIn(2, 1), w.idIn(1, 0)} {
			go func() {
				_, err := c.Touch(t.Context(), id, Touch{})
				assert.Equal(t, err, nil)
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		close(hold)
		for range 4 {
			<-done
		}
		if sent := w.sent()[before:]; len(sent) != 2 || len(sent[1].lines) != 3 {
			t.Errorf("%d requests for four calls", len(sent))
		}
	})
}

// TestBatchIsSplitByLeader checks that a batch goes to the leaders in parts, and that its results come in the order of
// its operations.
func TestBatchIsSplitByLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1", "c:1")
		c := w.client(Config{Addrs: []string{"a:1"}})
		w.touchAll(c)
		learned()
		before := len(w.sent())
		w.change(func() {
			w.nodes["b:1"].answer = func(b *sentBatch, i int) string {
				return fmt.Sprintf(`{"id":%q,"status":404,"problem":{"type":"urn:belfry:problem:task-not-found","status":404}}`,
					b.lines[i].ID)
			}
		})
		const tasks = 2500
		n := 0
		for r := range c.ScheduleMany(t.Context(), numbered(tasks)) {
			id := fmt.Sprint("t", n)
			shard := c.conn.directory.layout.Load().shardOf(id)
			atB := c.conn.directory.target(shard).base == "http://b:1"
			if r.ID != id || errors.Is(r.Err, ErrNotFound) != atB || (r.Status == http.StatusCreated) == atB {
				t.Fatalf("%d: %+v", n, r)
			}
			n++
		}
		lines := map[string]int{}
		for _, b := range w.sent()[before:] {
			lines[b.host] += len(b.lines)
		}
		if n != tasks || lines["a:1"] < 700 || lines["b:1"] < 700 || lines["a:1"]+lines["b:1"]+lines["c:1"] != tasks {
			t.Errorf("%d results; lines went %v", n, lines)
		}
		if requests := len(w.sent()) - before; requests > 12 {
			t.Errorf("%d requests", requests)
		}
	})
}

// TestBatchIsGivenUp checks that an abandoned batch yields a result for every operation, with all that is known.
func TestBatchIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1")
		c := w.client(Config{Addrs: []string{"a:1"}, FixedAddrs: true, Timeout: slowAfter / 2})
		w.nodes["a:1"].hold = make(chan struct{})
		began := time.Now()
		unknown := 0
		results := slices.Collect(c.ScheduleMany(t.Context(), numbered(2500)))
		for i, r := range results {
			if r.Err == nil || r.ID != fmt.Sprint("t", i) || r.Status != 0 {
				t.Fatalf("%d: %+v", i, r)
			}
			if errors.Is(r.Err, ErrUnknown) {
				unknown++
			}
		}
		if len(results) != 2500 || unknown == 0 || unknown > maxLines || time.Since(began) != slowAfter/2 {
			t.Errorf("%d results, %d unknown, after %v", len(results), unknown, time.Since(began))
		}
	})
}
