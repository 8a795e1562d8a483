package wire

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

func (g *Group) pipeline(t testing.TB, to int) *Pipeline {
	t.Helper()
	p, err := g.Pipeline(nodeID(to))
	assert.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// next returns the next future that a pipeline delivers.
func next(t testing.TB, p *Pipeline) raft.AppendFuture {
	t.Helper()
	select {
	case f := <-p.Consumer():
		return f
	case <-time.After(patience):
		t.Fatal("nothing is delivered")
		return nil
	}
}

// push sends an entry.
func push(p *Pipeline, index uint64) <-chan error {
	return begin(func() error {
		_, err := p.AppendEntries(withEntry(index, []byte("data")), new(raft.AppendEntriesResponse))
		return err
	})
}

func TestPipelineKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		from, to := w.node(1).open(1), w.node(2).open(1)
		p := from.pipeline(t, 2)
		const entries = 500
		sent := begin(func() error {
			for i := range uint64(entries) {
				if err := <-push(p, i+1); err != nil {
					return err
				}
			}
			return nil
		})
		answered := begin(func() error {
			for i := range uint64(entries) {
				if got := respondTo(<-to.Consumer(), 1); got.Entries[0].Index != i+1 {
					return errors.New("out of order")
				}
			}
			return nil
		})
		for i := range uint64(entries) {
			f := next(t, p)
			if err := f.Error(); err != nil || !f.Response().Success || f.Response().LastLog != i+1 {
				t.Fatalf("answer %d: %+v, %v", i, f.Response(), err)
			}
			if f.Request().Entries[0].Index != i+1 || f.Start().IsZero() {
				t.Fatalf("answer %d is for %+v", i, f.Request())
			}
		}
		for _, done := range []<-chan error{sent, answered} {
			assert.NoError(t, await(t, "the pipeline", done))
		}
	})
}

// Two requests are in flight, and the sender waits before it prepares the third.
func TestPipelineIsTwoDeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		from, to := w.node(1).open(1), w.node(2).open(1)
		p := from.pipeline(t, 2)
		assert.NoError(t, await(t, "the first", push(p, 1)))
		second := push(p, 2)
		first, other := takeRPC(t, to), takeRPC(t, to)
		synctest.Wait()
		select {
		case err := <-second:
			t.Fatalf("a third may follow: %v", err)
		default:
		}
		respondTo(first, 1)
		assert.NoError(t, await(t, "the second", second))
		respondTo(other, 1)
		for range 2 {
			assert.Equal(t, next(t, p).Error(), nil)
		}
	})
}

func TestClosedPipelineCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		from, to := w.node(1).open(1), w.node(2).open(1)
		p := from.pipeline(t, 2)
		f, err := p.AppendEntries(withEntry(1, nil), new(raft.AppendEntriesResponse))
		assert.NoError(t, err)
		second := push(p, 2)
		rpcs := []raft.RPC{takeRPC(t, to), takeRPC(t, to)}
		assert.NoError(t, p.Close())
		assert.ErrorIs(t, await(t, "the second", second), raft.ErrPipelineShutdown, "the second")
		assert.ErrorIs(t, f.Error(), raft.ErrPipelineShutdown, "the first")
		for _, rpc := range rpcs {
			respondTo(rpc, 1)
		}
		assert.ErrorIs(t, await(t, "a third", push(p, 3)), raft.ErrPipelineShutdown, "a third")
		go respond(to, 1)
		if err := replicate(from, 2, 4); err != nil { // after the answers to the cancelled requests
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case f := <-p.Consumer():
			t.Errorf("delivered after the end: %+v", f)
		default:
		}
		assert.Equal(t, from.mux.streams()[0].count(), 0, "requests are still pending")
	})
}

func (cl *client) count() int {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return len(cl.pending)
}

// A failed request is delivered without success, so Raft gives the pipeline up.
func TestPipelineToTheDeadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.node(1), w.node(2)
		from, to := one.open(1), two.open(1)
		p := from.pipeline(t, 2)
		assert.NoError(t, await(t, "a request", push(p, 1)))
		second := push(p, 2)
		takeRPC(t, to)
		takeRPC(t, to)
		two.stop()
		assert.Equal(t, await(t, "the second", second), nil, "it was under way")
		for range 2 {
			f := next(t, p)
			if err := f.Error(); err == nil || f.Response().Success {
				t.Errorf("%+v, %v", f.Response(), err)
			}
		}
		assert.Error(t, await(t, "a request to the dead", push(p, 3)), "it was sent")
		_, err := from.Pipeline(nodeID(2))
		assert.Error(t, err, "a pipeline to a stopped node")
	})
}

// A pipeline waits while its answers are not taken, and loses none.
func TestUnreadPipelineWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		from, to := w.node(1).open(1), w.node(2).open(1)
		go respond(to, 1)
		p := from.pipeline(t, 2)
		const fit = maxUnread + maxInFlight - 1 // delivered, or answered and not taken
		for i := range uint64(fit) {
			assert.NoError(t, await(t, "a request", push(p, i+1)))
		}
		waiting := push(p, fit+1)
		if err := replicate(from, 2, 1); err != nil { // the stream is not held up
			t.Fatal(err)
		}
		arrive(t, "all are answered", func() bool { return p.undelivered() == maxInFlight })
		synctest.Wait()
		select {
		case err := <-waiting:
			t.Fatalf("another may follow: %v", err)
		default:
		}
		for i := range uint64(fit + 1) {
			if f := next(t, p); f.Error() != nil || f.Response().LastLog != i+1 {
				t.Fatalf("answer %d: %+v, %v", i, f.Response(), f.Error())
			}
		}
		assert.Equal(t, await(t, "the one that waited", waiting), nil)
		assert.Equal(t, await(t, "one more", push(p, fit+2)), nil)
		if f := next(t, p); f.Response().LastLog != fit+2 {
			t.Errorf("answer %+v", f.Response())
		}
	})
}

// undelivered returns the number of answered requests that wait for delivery.
func (p *Pipeline) undelivered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, f := range p.flight {
		if f.over {
			n++
		}
	}
	return n
}

// The requests of a closed group in a pipeline end at once.
func TestPipelineOfClosedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.timeout = time.Hour
		from, to := w.node(1).open(1), w.node(2).open(1)
		p := from.pipeline(t, 2)
		assert.NoError(t, await(t, "a request", push(p, 1)))
		takeRPC(t, to)
		assert.NoError(t, from.Close())
		assert.ErrorIs(t, next(t, p).Error(), raft.ErrTransportShutdown, "it ended with")
		assert.ErrorIs(t, await(t, "a second", push(p, 2)), raft.ErrTransportShutdown, "a second")
	})
}
