package history

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/belfryhq/belfry/history/internal/segment"
)

// clockBack is the most by which the instants of a log go back from an event to a later one, unless clocks are
// corrected. Read skips the blocks whose last event is older than Filter.Since by more than that.
const clockBack = time.Second

// blocksRead is the limit on the blocks that one Read decompresses.
const blocksRead = 64

// Read returns up to limit events of a namespace in a shard that come after a position and match the filter. The
// reader goes on after Page.Next. A page may have no events although others follow: a filter that matches little ends
// a page after 64 blocks, some 4 MiB of events. If Next is the position that was asked for, nothing newer is there, and
// Wait waits for it. The caller must not change the events.
//
// The error is a *GoneError if events after the position have been removed, ErrNoShard if the node has no replica of
// the shard, or ErrClosed.
func (s *Store) Read(
	ctx context.Context, shard uint32, namespace string, after Position, filter Filter, limit int,
) (Page, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return Page{}, err
	}
	var page Page
	w := &walk{
		shard: sh, namespace: namespace, keys: []segment.Key{segment.NamespaceKey(namespace)},
		blocks: blocksRead, at: after, strict: true, since: filter.Since.Add(-clockBack),
		event: func(e *Event) bool {
			if filter.matches(e) {
				if len(page.Events) >= limit {
					return false
				}
				page.Events = append(page.Events, e)
			}
			return true
		},
	}
	if err := w.run(ctx); err != nil && !errors.Is(err, errStopped) {
		return Page{}, err
	}
	page.Gaps, page.Next = w.gaps, w.at
	return page, nil
}

// Task returns up to limit events of a task, oldest first, of all shards that are open. The caller must not change the
// events.
func (s *Store) Task(ctx context.Context, namespace, id string, limit int) (Story, error) {
	var story Story
	for _, sh := range s.open() {
		if err := sh.task(ctx, namespace, id, limit, &story); err != nil {
			return Story{}, err
		}
	}
	slices.SortStableFunc(story.Events, func(a, b *Event) int {
		return cmp.Or(cmp.Compare(a.AtMs, b.AtMs), cmp.Compare(a.Shard, b.Shard), a.Position().Compare(b.Position()))
	})
	if len(story.Events) > limit {
		story.Events, story.More = story.Events[:limit], true
	}
	return story, nil
}

// task adds the first events of a task in the shard to the story, one more than the limit at most.
func (s *Shard) task(ctx context.Context, namespace, id string, limit int, story *Story) error {
	found := 0
	w := &walk{
		shard: s, namespace: namespace, blocks: -1,
		keys: []segment.Key{segment.TaskKey(namespace, id)},
		event: func(e *Event) bool {
			if e.Task == id {
				story.Events = append(story.Events, e)
				found++
			}
			return found <= limit
		},
	}
	if err := w.run(ctx); err != nil && !errors.Is(err, errStopped) {
		return err
	}
	story.Gaps = append(story.Gaps, w.gaps...)
	if since := s.since(namespace); since.After(story.Since) {
		story.Since = since
	}
	return nil
}

// since returns the instant up to which events of the namespace may be gone, or the zero time.
func (s *Shard) since(namespace string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	floor := s.floors.floorOf(namespace)
	if floor == nil {
		return time.Time{}
	}
	return instant(floor.AtMs)
}

// Wait returns when a shard has an event of a namespace after a position, or has removed some. It returns the context's
// error if the context ends first, and ErrClosed if the shard closes.
func (s *Store) Wait(ctx context.Context, shard uint32, namespace string, after Position) error {
	sh, err := s.shard(shard)
	if err != nil {
		return err
	}
	for {
		newer, err := sh.newer(namespace, after)
		if err != nil || newer == nil {
			return err
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// newer returns a channel that is closed with the next event of a namespace, or nil if there is one after the position.
func (s *Shard) newer(namespace string, after Position) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.newestOf(namespace).After(after) || s.floors.floorOf(namespace).Position().After(after) {
		return nil, nil
	}
	if s.waiting[namespace] == nil {
		s.waiting[namespace] = make(chan struct{})
	}
	return s.waiting[namespace], nil
}
