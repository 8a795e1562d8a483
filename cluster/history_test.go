package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/history"
	"github.com/belfryhq/belfry/history/feed"
	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/internal/assert"
)

// follower reads the events of a namespace, each time through another node and from the text of a cursor, and judges
// that none comes twice or out of order.
type follower struct {
	t      *testing.T
	c      *clustertest.Cluster
	cursor string
	reads  int
	seen   map[string][]historypb.Type // by task
	last   map[uint32]history.Position // by shard
}

// read reads one page through one of the nodes, from a cursor in the middle of the last page as often as from its end.
func (f *follower) read(nodes ...int) error {
	f.reads++
	after, err := feed.Parse(f.cursor)
	assert.NoError(f.t, err)
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	reader := f.c.Node(nodes[f.reads%len(nodes)]).Events()
	page, err := reader.Read(ctx, "default", after, feed.Filter{}, 7, 100*time.Millisecond)
	if err != nil {
		return err
	}
	if page.Gapped {
		f.t.Errorf("events are missing after %q", f.cursor)
	}
	if n := len(page.Entries); f.reads%2 == 0 && n > 1 {
		page.Entries, page.Next = page.Entries[:n/2], page.Entries[n/2-1].Cursor
	}
	for _, e := range page.Entries {
		if last, ok := f.last[e.Shard]; ok && !e.Position().After(last) {
			f.t.Errorf("shard %d: %v comes after %v", e.Shard, e.Position(), last)
		}
		f.last[e.Shard] = e.Position()
		f.seen[e.Task] = append(f.seen[e.Task], e.Type)
		if e.Type == historypb.Type_TYPE_FIRED && e.AtMs != e.DueMs+e.LatenessMs {
			f.t.Errorf("%s, due at %d, is fired at %d, %d ms late", e.Task, e.DueMs, e.AtMs, e.LatenessMs)
		}
	}
	f.cursor = page.Next.String()
	return nil
}

var lifeOfATask = []historypb.Type{
	historypb.Type_TYPE_SCHEDULED, historypb.Type_TYPE_FIRED, historypb.Type_TYPE_DELIVERED,
}

// TestEvents checks that a reader gets each event of each task once and in order, while the leader of a shard dies, and
// that a task has its whole story at each node afterwards.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tasks = 60
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			store, err := history.Open(history.Config{Dir: filepath.Join(t.TempDir(), fmt.Sprint(i))})
			assert.NoError(t, err)
			t.Cleanup(func() {
				assert.Equal(t, store.Close(), nil)
			})
			cfg.History, cfg.Deliver = store, &clustertest.Receiver{}
		})
		var cmds []*fsmpb.Command
		for i := range tasks {
			cmds = append(cmds, schedule(fmt.Sprint("story-", i), time.Duration(i)*20*time.Millisecond))
		}
		mustDo(t, c.Node(0), cmds...)
		f := &follower{t: t, c: c, seen: map[string][]historypb.Type{}, last: map[uint32]history.Position{}}
		c.Until("some are delivered", func() error {
			if err := f.read(0, 1, 2); err != nil {
				return err
			}
			return f.complete(tasks / 3)
		})
		victim := leaderOf(t, c, "story-0")
		c.Crash(victim)
		left := []int{(victim + 1) % 3, (victim + 2) % 3}
		c.Until("all are delivered", func() error {
			if err := f.read(left...); err != nil {
				return err
			}
			return f.complete(tasks)
		})
		for _, node := range left {
			story, err := c.Node(node).Events().Task(t.Context(), "default", "story-7", 100)
			if err != nil || len(story.Events) < len(lifeOfATask) || story.Gapped || !story.Since.IsZero() {
				t.Errorf("node %d: %+v, %v", node, story, err)
			}
		}
		story, err := c.Node(left[0]).Events().Task(t.Context(), "default", "story-7", 2)
		if err != nil || len(story.Events) != 2 || !story.More {
			t.Errorf("two events: %+v, %v", story, err)
		}
		present, err := c.Node(left[1]).Events().Present(t.Context(), "default")
		assert.NoError(t, err)
		page, err := c.Node(left[0]).Events().Read(t.Context(), "default", present, feed.Filter{}, 100, 0)
		if err != nil || len(page.Entries) != 0 {
			t.Errorf("after the present: %+v, %v", page, err)
		}
	})
}

// complete returns an error unless n tasks have their events, in order. A takeover may repeat an attempt, not an event.
func (f *follower) complete(n int) error {
	done := 0
	for id, types := range f.seen {
		for i, kind := range types {
			if i >= len(lifeOfATask) || kind != lifeOfATask[i] {
				f.t.Fatalf("%s: %v", id, types)
			}
		}
		if len(types) == len(lifeOfATask) {
			done++
		}
	}
	if done < n {
		return errors.Join(fmt.Errorf("%d of %d", done, n))
	}
	return nil
}
