package chronicle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/history"
	"github.com/belfryhq/belfry/history/feed"
	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/internal/assert"
)

// node is a node with a history of its own.
type node struct {
	*Keeper
	down bool
}

// pair is two nodes with replicas of two shards.
type pair map[string]*node

func (pair) Shards() []uint32              { return []uint32{1, 2} }
func (pair) ShardOf(string, string) uint32 { return 1 }
func (pair) Nodes(uint32) []string         { return []string{"a", "b"} }

func (p pair) Read(
	ctx context.Context, name string, r *clusterpb.ReadEventsRequest,
) (*clusterpb.ReadEventsReply, error) {
	if p[name].down {
		return nil, errors.New("down")
	}
	return p[name].Read(ctx, r)
}

func (p pair) Task(ctx context.Context, r *clusterpb.TaskEventsRequest) (
	replies map[string]*clusterpb.TaskEventsReply, failed map[string]error,
) {
	replies, failed = map[string]*clusterpb.TaskEventsReply{}, map[string]error{}
	for name, n := range p {
		reply, err := n.Task(ctx, r)
		if err != nil || n.down {
			failed[name] = errors.Join(err, errors.New("down"))
			continue
		}
		replies[name] = reply
	}
	return replies, failed
}

// world is a pair of nodes, and a reader.
type world struct {
	t     *testing.T
	nodes pair
	*Reader
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, nodes: pair{}}
	for _, name := range []string{"a", "b"} {
		store, err := history.Open(history.Config{Dir: t.TempDir()})
		assert.NoError(t, err)
		t.Cleanup(func() {
			assert.Equal(t, store.Close(), nil)
		})
		w.nodes[name] = &node{Keeper: NewKeeper(store)}
		for _, id := range []uint32{1, 2} {
			w.shard(name, id)
		}
	}
	w.Reader = NewReader(w.nodes)
	return w
}

func (w *world) shard(name string, id uint32) *Shard {
	w.t.Helper()
	s, err := w.nodes[name].Shard(id)
	assert.NoError(w.t, err)
	return s
}

// happen applies an entry with one event on the nodes.
func (w *world) happen(id uint32, index uint64, atMs int64, name string, nodes ...string) {
	for _, n := range nodes {
		w.shard(n, id).Append(index, []task.Event{{
			Type: task.EventFired, Namespace: "default", ID: name, Queue: "q", AtMs: atMs, DueMs: atMs - 5, Attempt: 1,
			LatenessMs: 5, WebhookID: fmt.Sprint("w", atMs), Node: "n", Answer: "x", Labels: []*fsmpb.Label{{Name: "l", Value: name}},
		}})
	}
}

func (w *world) read(after feed.Cursor, f feed.Filter) feed.Page {
	w.t.Helper()
	page, err := w.Read(w.t.Context(), "default", after, f, 10, 0)
	assert.NoError(w.t, err)
	return page
}

func names(page feed.Page) (names []string) {
	for _, e := range page.Entries {
		names = append(names, e.Task)
	}
	return names
}

// TestPages checks the order of a page over two shards, that each cursor in it goes on behind its event, the filters,
// and that another node answers if the first one does not.
func TestPages(t *testing.T) {
	w := newWorld(t)
	both := []string{"a", "b"}
	w.happen(1, 5, 1000, "x1", both...)
	w.happen(1, 6, 900, "x2", both...) // the leader's clock went back
	w.happen(2, 3, 950, "y1", both...)
	w.happen(2, 9, 1100, "y2", both...)
	want := []string{"y1", "x1", "x2", "y2"}
	whole := w.read(feed.Cursor{}, feed.Filter{})
	if got := names(whole); !slices.Equal(got, want) || whole.Gapped || len(whole.Absent) > 0 {
		t.Fatalf("%v %+v", got, whole)
	}
	w.nodes["a"].down = true
	for i, e := range whole.Entries {
		assert.EqualSlices(t, names(w.read(e.Cursor, feed.Filter{})), want[i+1:], "after %s come", e.Task)
	}
	for _, c := range []struct {
		f    feed.Filter
		want []string
	}{
		{feed.Filter{Prefix: "x"}, []string{"x1", "x2"}},
		{feed.Filter{Since: time.UnixMilli(1000)}, []string{"x1", "y2"}},
		{feed.Filter{Labels: []*historypb.Label{{Name: "l", Value: "y2"}}}, []string{"y2"}},
		{feed.Filter{Types: []historypb.Type{historypb.Type_TYPE_DEAD}}, nil},
		{feed.Filter{Queue: "other"}, nil},
	} {
		page := w.read(feed.Cursor{}, c.f)
		if got := names(page); !slices.Equal(got, c.want) || page.Next.String() != whole.Next.String() {
			t.Errorf("%+v: %v, up to %v", c.f, got, page.Next)
		}
	}
	w.nodes["b"].down = true
	_, err := w.Read(t.Context(), "default", feed.Cursor{}, feed.Filter{}, 10, 0)
	assert.Error(t, err, "no node answers, and a page comes")
	_, err = w.Present(t.Context(), "default")
	assert.Error(t, err, "no node answers, and the present is known")
}

// TestPageOfTheLastSeconds checks that the first page since an instant has the events of then, however many came before
// them, in memory and on disk.
func TestPageOfTheLastSeconds(t *testing.T) {
	w := newWorld(t)
	const old, recent = 1_000_000, 2_000_000
	for index := range uint64(10_000) {
		w.happen(1, index+1, old, strings.Repeat("old", 60), "a")
		if index%1000 == 0 {
			assert.NoError(t, w.shard("a", 1).Sync(index))
		}
	}
	w.happen(1, 10_001, recent, "new", "a")
	page := w.read(feed.Cursor{}, feed.Filter{Since: time.UnixMilli(recent)})
	if got := names(page); !slices.Equal(got, []string{"new"}) || page.Next.At(1).Index != 10_001 {
		t.Errorf("%v, up to %v", got, page.Next.At(1))
	}
}

// TestPageWaits checks that a reader behind all events waits for the next one.
func TestPageWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.happen(1, 5, 1000, "x1", "a", "b")
		present, err := w.Present(t.Context(), "default")
		assert.NoError(t, err)
		pages := make(chan feed.Page)
		go func() {
			page, err := w.Read(context.WithoutCancel(t.Context()), "default", present, feed.Filter{}, 10, time.Minute)
			assert.Equal(t, err, nil)
			pages <- page
		}()
		synctest.Wait()
		w.happen(2, 1, 1001, "y1", "a", "b")
		assert.EqualSlices(t, names(<-pages), []string{"y1"})
	})
}

// TestBeginsOfAttempts checks that the story of a task has the begin of each attempt that has ended, and that the stream
// keeps the instant from which it may begin.
func TestBeginsOfAttempts(t *testing.T) {
	w := newWorld(t)
	event := func(kind task.EventType, attempt uint32, atMs, begunMs int64) task.Event {
		return task.Event{Type: kind, Namespace: "default", ID: "x", Queue: "q", AtMs: atMs, DueMs: 1000, Attempt: attempt,
			WebhookID: "w", BegunMs: begunMs}
	}
	w.shard("a", 1).Append(1, []task.Event{event(task.EventFired, 1, 1000, 0)})
	w.shard("a", 1).Append(2, []task.Event{event(task.EventFailed, 1, 1200, 1007), event(task.EventFired, 2, 2000, 0)})
	want := "[1007+7ms 1200+0ms 2000+0ms]"
	story, err := w.Task(t.Context(), "default", "x", 10)
	if got := instants(story.Events); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	assert.Equal(t, w.read(feed.Cursor{}, feed.Filter{}).Entries[0].AtMs, 1000, "the stream has the begin at")
}

// TestAttemptsThatWereGivenBack checks that the story of a task leaves out the attempts that did not begin.
func TestAttemptsThatWereGivenBack(t *testing.T) {
	w := newWorld(t)
	for i, e := range []struct {
		kind    task.EventType
		attempt uint32
		webhook string
		begunMs int64
	}{
		{task.EventScheduled, 0, "", 0},
		{task.EventFired, 1, "a", 0}, {task.EventMoved, 0, "", 0}, // the window was closed
		{task.EventFired, 1, "a", 0}, {task.EventFired, 1, "a", 0}, // released, and granted again
		{task.EventFailed, 1, "a", 5007}, {task.EventFired, 2, "a", 0}, // replaced during the attempt
		{task.EventScheduled, 0, "", 0}, {task.EventMoved, 0, "", 0}, {task.EventFired, 1, "b", 0},
	} {
		w.shard("a", 1).Append(uint64(i+1), []task.Event{{Type: e.kind, Namespace: "default", ID: "x", Queue: "q",
			AtMs: int64(1000 * (i + 1)), DueMs: 1000, Attempt: e.attempt, WebhookID: e.webhook, BegunMs: e.begunMs}})
	}
	story, err := w.Task(t.Context(), "default", "x", 20)
	var got []string
	for _, e := range story.Events {
		got = append(got, fmt.Sprintf("%s%d@%d", strings.TrimPrefix(e.Type.String(), "TYPE_"), e.Attempt, e.AtMs))
	}
	const want = "SCHEDULED0@1000 MOVED0@3000 FIRED1@5007 FAILED1@6000 FIRED2@7000 SCHEDULED0@8000 MOVED0@9000 FIRED1@10000"
	if all := strings.Join(got, " "); err != nil || all != want {
		t.Errorf("%s, %v, want %s", all, err, want)
	}
}

func instants(events []*historypb.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprintf("%d+%dms", e.AtMs, e.LatenessMs))
	}
	return fmt.Sprint(all)
}

// TestGapsAreTold checks that a page tells of events that a replica does not have, and a story too, unless another node
// with the shard has them.
func TestGapsAreTold(t *testing.T) {
	w := newWorld(t)
	w.shard("a", 1).Gap(1, 6)
	w.happen(1, 5, 1000, "x", "b")
	w.happen(1, 7, 1002, "x", "a", "b")
	if page := w.read(feed.Cursor{}, feed.Filter{}); !page.Gapped || len(page.Entries) != 1 {
		t.Errorf("%+v", page)
	}
	story, err := w.Task(t.Context(), "default", "x", 10)
	if err != nil || story.Gapped || len(story.Events) != 2 || story.Events[0].AtMs != 1000 {
		t.Errorf("%+v, %v", story, err)
	}
	w.nodes["b"].down = true
	story, err = w.Task(t.Context(), "default", "x", 10)
	if err != nil || !story.Gapped || len(story.Events) != 1 || fmt.Sprint(story.Absent) != "[b]" {
		t.Errorf("without b: %+v, %v", story, err)
	}
	w.nodes["a"].down = true
	if _, err = w.Task(t.Context(), "default", "x", 10); err == nil {
		t.Error("no node answers, and a story comes")
	}
}

// TestEventsGo checks that the events of a namespace that does not exist any more go, and those of a replica that left.
func TestEventsGo(t *testing.T) {
	w := newWorld(t)
	a := w.nodes["a"]
	w.happen(1, 5, 1000, "x", "a")
	w.happen(2, 5, 1000, "y", "a")
	assert.NoError(t, a.Retain(func(name string) bool { return name == "default" }))
	got := names(w.read(feed.Cursor{}, feed.Filter{}))
	assert.Equal(t, len(got), 2, "%v are left", got)
	assert.NoError(t, a.DropStrays([]uint32{2}))
	if got := names(w.read(feed.Cursor{}, feed.Filter{})); !slices.Equal(got, []string{"y"}) {
		t.Errorf("%v are left after the replica of shard 1", got)
	}
	assert.NoError(t, a.Retain(func(string) bool { return false }))
	if got := names(w.read(feed.Cursor{}, feed.Filter{})); len(got) > 0 {
		t.Errorf("%v are left of no namespace", got)
	}
}

// TestNoHistory checks a node that keeps none.
func TestNoHistory(t *testing.T) {
	k := NewKeeper(nil)
	if s, err := k.Shard(1); s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
	assert.Equal(t, errors.Join(k.Drop(1), k.DropStrays(nil), k.Retain(nil)), nil)
	_, err := k.Read(t.Context(), &clusterpb.ReadEventsRequest{Shard: 1})
	assert.ErrorIs(t, err, ErrNone)
	_, err = k.Task(t.Context(), &clusterpb.TaskEventsRequest{})
	assert.ErrorIs(t, err, ErrNone)
}
