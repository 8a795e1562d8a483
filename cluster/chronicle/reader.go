package chronicle

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/history/feed"
	"github.com/belfryhq/belfry/history/historypb"
)

// Cluster is the shards of a cluster, and the nodes with their replicas.
type Cluster interface {
	// Shards returns the shards of the cluster.
	Shards() []uint32
	// ShardOf returns the shard of a task.
	ShardOf(namespace, id string) uint32
	// Nodes returns the nodes with a replica of a shard, the one to ask first in front.
	Nodes(shard uint32) []string
	// Read asks a node for events of its replica.
	Read(ctx context.Context, node string, r *clusterpb.ReadEventsRequest) (*clusterpb.ReadEventsReply, error)
	// Task asks all nodes for the events of a task, and returns the answers and the errors by node.
	Task(ctx context.Context, r *clusterpb.TaskEventsRequest) (
		replies map[string]*clusterpb.TaskEventsReply, failed map[string]error)
}

// Reader reads the events of the whole cluster.
type Reader struct{ cluster Cluster }

// NewReader returns a Reader.
func NewReader(cluster Cluster) *Reader { return &Reader{cluster} }

// readPatience is the time for a node to answer, apart from its waiting.
const readPatience = 3 * time.Second

// errNoNode is the error of a shard whose nodes do not answer.
var errNoNode = errors.New("no node with a replica of the shard answers")

// Present returns the cursor behind all events that are there.
func (r *Reader) Present(ctx context.Context, namespace string) (feed.Cursor, error) {
	replies, absent := r.each(ctx, func(shard uint32) *clusterpb.ReadEventsRequest {
		return &clusterpb.ReadEventsRequest{Shard: shard, Namespace: namespace}
	})
	if len(absent) > 0 {
		return feed.Cursor{}, errNoNode // a cursor without the shard would begin at its oldest event
	}
	var at feed.Cursor
	for _, shard := range slices.Sorted(maps.Keys(replies)) {
		at = at.With(shard, positionOf(replies[shard].GetLast()))
	}
	return at, nil
}

// Read returns up to limit events of each shard after a cursor. If there are none, it waits for some, but not longer
// than wait. The error is a *feed.GoneError if the cursor lies before removed events. A shard that the cursor does not
// have is read from the oldest event that is left.
func (r *Reader) Read(
	ctx context.Context, namespace string, after feed.Cursor, f feed.Filter, limit int, wait time.Duration,
) (feed.Page, error) {
	page, err := r.read(ctx, namespace, after, f, limit)
	if err != nil || len(page.Entries) > 0 || page.Gapped || wait <= 0 || page.Next.String() != after.String() {
		return page, err
	}
	r.await(ctx, namespace, after, f, wait)
	return r.read(ctx, namespace, after, f, limit)
}

func (r *Reader) request(shard uint32, namespace string, after feed.Cursor, f feed.Filter, limit int,
) *clusterpb.ReadEventsRequest {
	m := &clusterpb.ReadEventsRequest{
		Shard: shard, Namespace: namespace, After: positionMessage(after.At(shard)), Queue: f.Queue, Types: f.Types,
		Labels: f.Labels, Prefix: f.Prefix, Limit: uint32(limit),
	}
	if !f.Since.IsZero() {
		m.SinceMs = f.Since.UnixMilli()
	}
	return m
}

func (r *Reader) read(
	ctx context.Context, namespace string, after feed.Cursor, f feed.Filter, limit int,
) (feed.Page, error) {
	replies, absent := r.each(ctx, func(shard uint32) *clusterpb.ReadEventsRequest {
		return r.request(shard, namespace, after, f, limit)
	})
	if len(replies) == 0 && len(absent) > 0 {
		return feed.Page{}, errNoNode
	}
	page := feed.Page{Next: after, Absent: absent}
	var events []*historypb.Event
	for _, shard := range slices.Sorted(maps.Keys(replies)) {
		reply := replies[shard]
		if gone := reply.GetGone(); gone != nil {
			if at := after.At(shard); at != (historypb.Position{}) {
				return feed.Page{}, &feed.GoneError{Since: time.UnixMilli(reply.GetGoneMs())}
			}
			page.Gapped = page.Gapped || f.Since.IsZero() || f.Since.UnixMilli() <= reply.GetGoneMs()
			page.Next = page.Next.With(shard, positionOf(gone))
			continue
		}
		page.Gapped = page.Gapped || reply.GetGapped()
		page.Next = page.Next.With(shard, positionOf(reply.GetNext()))
		events = append(events, reply.GetEvents()...)
	}
	page.Entries = entriesOf(after, events)
	if n := len(page.Entries); n > 0 {
		page.Entries[n-1].Cursor = page.Next
	}
	return page, nil
}

// entriesOf puts events in the order of their instants, and those of a shard in the order of its log, each with the
// cursor after it.
func entriesOf(after feed.Cursor, events []*historypb.Event) []feed.Entry {
	at := map[uint32]int64{} // latest instant so far, so that a clock that went back does not change a shard's order
	keys := make(map[*historypb.Event]int64, len(events))
	for _, e := range events {
		at[e.GetShard()] = max(at[e.GetShard()], e.GetAtMs())
		keys[e] = at[e.GetShard()]
	}
	slices.SortStableFunc(events, func(a, b *historypb.Event) int { return cmp.Compare(keys[a], keys[b]) })
	entries := make([]feed.Entry, len(events))
	for i, e := range events {
		after = after.With(e.GetShard(), e.Position())
		entries[i] = feed.Entry{Event: e, Cursor: after}
	}
	return entries
}

// each asks for events of all shards side by side. It returns the replies by shard, and the shards without one.
func (r *Reader) each(
	ctx context.Context, request func(shard uint32) *clusterpb.ReadEventsRequest,
) (map[uint32]*clusterpb.ReadEventsReply, []uint32) {
	var mu sync.Mutex
	var all sync.WaitGroup
	replies, absent := map[uint32]*clusterpb.ReadEventsReply{}, []uint32(nil)
	for _, shard := range r.cluster.Shards() {
		all.Go(func() {
			reply, err := r.ask(ctx, request(shard))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				absent = append(absent, shard)
				return
			}
			replies[shard] = reply
		})
	}
	all.Wait()
	slices.Sort(absent)
	return replies, absent
}

// ask asks the nodes with a replica of a shard, one after the other, until one answers.
func (r *Reader) ask(ctx context.Context, m *clusterpb.ReadEventsRequest) (*clusterpb.ReadEventsReply, error) {
	err := errNoNode
	for _, node := range r.cluster.Nodes(m.GetShard()) {
		once, cancel := context.WithTimeout(ctx, readPatience+time.Duration(m.GetWaitMs())*time.Millisecond)
		var reply *clusterpb.ReadEventsReply
		reply, err = r.cluster.Read(once, node, m)
		cancel()
		if err == nil || ctx.Err() != nil {
			return reply, err
		}
	}
	return nil, err
}

// await waits until a shard has an event after the cursor, or for the time of wait.
func (r *Reader) await(ctx context.Context, namespace string, after feed.Cursor, f feed.Filter, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var all sync.WaitGroup
	for _, shard := range r.cluster.Shards() {
		all.Go(func() {
			m := r.request(shard, namespace, after, f, 1)
			m.WaitMs = wait.Milliseconds()
			reply, err := r.ask(ctx, m)
			if err == nil && (reply.GetGone() != nil || positionOf(reply.GetNext()) != after.At(shard)) {
				cancel()
			}
		})
	}
	all.Wait()
}

// Task returns the events of a task, from all nodes. The events are complete as far as they are at one of the nodes
// with a replica of the task's shard.
func (r *Reader) Task(ctx context.Context, namespace, id string, limit int) (feed.Story, error) {
	request := &clusterpb.TaskEventsRequest{Namespace: namespace, Task: id, Limit: uint32(limit)}
	replies, failed := r.cluster.Task(ctx, request)
	if len(replies) == 0 {
		for _, node := range slices.Sorted(maps.Keys(failed)) {
			return feed.Story{}, failed[node]
		}
	}
	story := feed.Story{Absent: slices.Sorted(maps.Keys(failed)), Gapped: true}
	var events []*historypb.Event
	for _, node := range slices.Sorted(maps.Keys(replies)) {
		events = append(events, replies[node].GetEvents()...)
		story.More = story.More || replies[node].GetMore()
	}
	since := int64(math.MaxInt64)
	for _, node := range r.cluster.Nodes(r.cluster.ShardOf(namespace, id)) {
		if reply := replies[node]; reply != nil {
			story.Gapped = story.Gapped && reply.GetGapped()
			since = min(since, reply.GetSinceMs())
		}
	}
	if since != 0 && since != math.MaxInt64 {
		story.Since = time.UnixMilli(since)
	}
	story.Events = merged(events)
	if len(story.Events) > limit {
		story.Events, story.More = story.Events[:limit], true
	}
	return story, nil
}

// begun gives the fired events of ended attempts the instants at which the attempts began, and leaves out those of
// attempts that were given back: the leader did not begin them, for example because the window was closed. Until an
// attempt ends, the log has only the instant from which it may begin. The events of a shard are in their order.
func begun(events []*historypb.Event) []*historypb.Event {
	type attempt struct {
		webhookID string
		number    uint32
	}
	open, given := map[attempt]int{}, map[int]bool{}
	for i, e := range events {
		a := attempt{e.GetWebhookId(), e.GetAttempt()}
		at, fired := open[a]
		switch {
		case e.GetType() == historypb.Type_TYPE_FIRED:
			if fired {
				given[at] = true // the same attempt is granted anew
			}
			open[a] = i
		case e.GetType() == historypb.Type_TYPE_SCHEDULED: // a new occurrence, whatever becomes of the attempts before
			clear(open)
		case e.GetType() == historypb.Type_TYPE_MOVED: // no task moves during an attempt
			for a, at := range open {
				given[at] = true
				delete(open, a)
			}
		case fired && a.webhookID != "":
			if e.GetBegunMs() > 0 {
				events[at] = withBegin(events[at], e.GetBegunMs())
			}
			delete(open, a)
		}
	}
	kept := events[:0]
	for i, e := range events {
		if !given[i] {
			kept = append(kept, e)
		}
	}
	return kept
}

// withBegin returns a fired event with the begin of its attempt. The event given is also in the history's memory.
func withBegin(e *historypb.Event, ms int64) *historypb.Event {
	e = e.CloneVT()
	e.AtMs = ms
	if e.Attempt == 1 {
		e.LatenessMs = max(e.AtMs-e.DueMs, 0)
	}
	return e
}

// merged returns the events in the order of their instants, and each position of a shard once.
func merged(events []*historypb.Event) []*historypb.Event {
	byPlace := func(a, b *historypb.Event) int {
		return cmp.Or(cmp.Compare(a.GetShard(), b.GetShard()), a.Position().Compare(b.Position()))
	}
	slices.SortFunc(events, byPlace)
	events = slices.CompactFunc(events, func(a, b *historypb.Event) bool { return byPlace(a, b) == 0 })
	events = begun(events)
	slices.SortStableFunc(events, func(a, b *historypb.Event) int { return cmp.Compare(a.GetAtMs(), b.GetAtMs()) })
	return events
}
