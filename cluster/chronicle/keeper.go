package chronicle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/history"
	"github.com/belfryhq/belfry/history/historypb"
)

// ErrNone is returned by a node that keeps no history.
var ErrNone = errors.New("the node keeps no history")

// Keeper is the history of one node.
type Keeper struct{ store *history.Store }

// NewKeeper returns the Keeper of a store; nil: the node keeps no history.
func NewKeeper(store *history.Store) *Keeper { return &Keeper{store} }

// Shard returns the history of a replica, or nil if the node keeps none.
func (k *Keeper) Shard(id uint32) (*Shard, error) {
	if k.store == nil {
		return nil, nil
	}
	s, err := k.store.Shard(id)
	if err != nil {
		return nil, err
	}
	return &Shard{Shard: s}, nil
}

// Drop removes the events of a replica that the node no longer has.
func (k *Keeper) Drop(id uint32) error {
	if k.store == nil {
		return nil
	}
	s, err := k.store.Shard(id)
	if err != nil {
		return err
	}
	return s.Drop()
}

// DropStrays removes the events of all replicas but those that the node has.
func (k *Keeper) DropStrays(held []uint32) error {
	if k.store == nil {
		return nil
	}
	stored, err := k.store.Stored()
	errs := []error{err}
	for _, id := range stored {
		if !slices.Contains(held, id) {
			errs = append(errs, k.Drop(id))
		}
	}
	return errors.Join(errs...)
}

// Retain removes the events of all namespaces but those that exist.
func (k *Keeper) Retain(exists func(namespace string) bool) error {
	if k.store == nil {
		return nil
	}
	var errs []error
	for _, name := range k.store.Namespaces() {
		if !exists(name) {
			errs = append(errs, k.store.Erase(name))
		}
	}
	return errors.Join(errs...)
}

// Shard is the history of a replica. It is a shard.History.
type Shard struct {
	*history.Shard
	message history.Event  // reused
	labels  []*fsmpb.Label // of message
}

// Append keeps the events of an entry.
func (s *Shard) Append(index uint64, events []task.Event) {
	s.Shard.Append(index, func(yield func(*history.Event) bool) {
		for i := range events {
			if s.fill(&events[i]); !yield(&s.message) {
				return
			}
		}
	})
}

var types = [...]historypb.Type{
	task.EventScheduled: historypb.Type_TYPE_SCHEDULED, task.EventMoved: historypb.Type_TYPE_MOVED,
	task.EventFired: historypb.Type_TYPE_FIRED, task.EventDelivered: historypb.Type_TYPE_DELIVERED,
	task.EventFailed: historypb.Type_TYPE_FAILED, task.EventDead: historypb.Type_TYPE_DEAD,
	task.EventCancelled: historypb.Type_TYPE_CANCELLED, task.EventExpired: historypb.Type_TYPE_EXPIRED,
	task.EventSkipped: historypb.Type_TYPE_SKIPPED,
}

// fill makes the message that of an event. The history sets its position.
func (s *Shard) fill(e *task.Event) {
	m := &s.message
	m.AtMs, m.Type, m.Namespace, m.Task, m.Queue, m.DueMs = e.AtMs, types[e.Type], e.Namespace, e.ID, e.Queue, e.DueMs
	m.LatenessMs, m.Attempt, m.WebhookId, m.Node, m.Answer = e.LatenessMs, e.Attempt, e.WebhookID, e.Node, e.Answer
	m.BegunMs, m.Occurrence = e.BegunMs, 0
	if _, number, ok := task.SplitOccurrence(e.ID); ok {
		m.Occurrence = number
	}
	if slices.Equal(s.labels, e.Labels) {
		return
	}
	s.labels, m.Labels = e.Labels, nil
	for _, l := range e.Labels {
		m.Labels = append(m.Labels, &historypb.Label{Name: l.Name, Value: l.Value})
	}
}

// Read returns events of a replica of this node, for a reader on any node.
func (k *Keeper) Read(ctx context.Context, r *clusterpb.ReadEventsRequest) (*clusterpb.ReadEventsReply, error) {
	if k.store == nil {
		return nil, ErrNone
	}
	after := positionOf(r.GetAfter())
	reply := &clusterpb.ReadEventsReply{Next: positionMessage(after)}
	if r.GetLimit() > 0 {
		if err := k.wait(ctx, r, after); err != nil {
			return nil, err
		}
		if err := k.read(ctx, r, after, reply); err != nil {
			return nil, err
		}
	}
	last, err := k.store.Last(r.GetShard())
	reply.Last = positionMessage(last)
	return reply, err
}

// wait waits for an event after the position, as long as the request allows.
func (k *Keeper) wait(ctx context.Context, r *clusterpb.ReadEventsRequest, after history.Position) error {
	if r.GetWaitMs() <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.GetWaitMs())*time.Millisecond)
	defer cancel()
	err := k.store.Wait(ctx, r.GetShard(), r.GetNamespace(), after)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func (k *Keeper) read(
	ctx context.Context, r *clusterpb.ReadEventsRequest, after history.Position, reply *clusterpb.ReadEventsReply,
) error {
	filter := history.Filter{Queue: r.GetQueue(), Types: r.GetTypes(), Labels: r.GetLabels(), Prefix: r.GetPrefix()}
	if r.GetSinceMs() != 0 {
		filter.Since = time.UnixMilli(r.GetSinceMs())
	}
	page, err := k.store.Read(ctx, r.GetShard(), r.GetNamespace(), after, filter, int(r.GetLimit()))
	var gone *history.GoneError
	switch {
	case errors.As(err, &gone):
		reply.Gone, reply.GoneMs = positionMessage(gone.After), gone.Since.UnixMilli()
		return nil
	case err != nil:
		return err
	}
	reply.Next, reply.Gapped = positionMessage(page.Next), len(page.Gaps) > 0
	reply.Events = page.Events
	return nil
}

// Task returns the events of a task in the replicas of this node.
func (k *Keeper) Task(ctx context.Context, r *clusterpb.TaskEventsRequest) (*clusterpb.TaskEventsReply, error) {
	if k.store == nil {
		return nil, ErrNone
	}
	story, err := k.store.Task(ctx, r.GetNamespace(), r.GetTask(), int(r.GetLimit()))
	if err != nil {
		return nil, err
	}
	reply := &clusterpb.TaskEventsReply{Events: story.Events, More: story.More, Gapped: len(story.Gaps) > 0}
	if !story.Since.IsZero() {
		reply.SinceMs = story.Since.UnixMilli()
	}
	return reply, nil
}

func positionOf(m *clusterpb.EventPosition) history.Position {
	return history.Position{Index: m.GetIndex(), Number: m.GetNumber()}
}

func positionMessage(p history.Position) *clusterpb.EventPosition {
	return &clusterpb.EventPosition{Index: p.Index, Number: p.Number}
}
