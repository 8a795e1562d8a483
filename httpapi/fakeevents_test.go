package httpapi

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/history/feed"
	"github.com/belfryhq/belfry/history/historypb"
)

// fakeEvents is the history of one shard.
type fakeEvents struct {
	mu    sync.Mutex
	kept  []*historypb.Event // with ascending indexes
	since time.Time          // zero: nothing is gone
	gone  uint64             // index of the last event that is gone
	err   error
	more  chan struct{} // closed at the next event
}

func newFakeEvents() *fakeEvents { return &fakeEvents{more: make(chan struct{})} }

func (f *fakeEvents) add(e *historypb.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Shard, e.Index, e.Namespace = 3, uint64(len(f.kept)+1), "default"
	f.kept = append(f.kept, e)
	close(f.more)
	f.more = make(chan struct{})
}

func (f *fakeEvents) Task(_ context.Context, _, id string, limit int) (feed.Story, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	story := feed.Story{Since: f.since}
	for _, e := range f.kept {
		if e.Task == id {
			story.Events = append(story.Events, e)
		}
	}
	if len(story.Events) > limit {
		story.Events, story.More = story.Events[:limit], true
	}
	return story, f.err
}

func (f *fakeEvents) Present(context.Context, string) (feed.Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return feed.Cursor{}.With(3, historypb.Position{Index: uint64(len(f.kept)), Number: 1}), f.err
}

func (f *fakeEvents) Read(
	ctx context.Context, _ string, after feed.Cursor, filter feed.Filter, limit int, wait time.Duration,
) (feed.Page, error) {
	f.mu.Lock()
	more := f.more
	page, err := f.read(after, filter, limit)
	f.mu.Unlock()
	if err != nil || len(page.Entries) > 0 || page.Next.String() != after.String() || wait == 0 {
		return page, err
	}
	select {
	case <-more:
	case <-ctx.Done():
	case <-time.After(wait):
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(after, filter, limit)
}

func (f *fakeEvents) read(after feed.Cursor, filter feed.Filter, limit int) (feed.Page, error) {
	page := feed.Page{Next: after}
	at := after.At(3)
	if at.Index > 0 && at.Index < f.gone {
		return page, &feed.GoneError{Since: f.since}
	}
	page.Gapped = f.gone > 0 && at.Index == 0
	for _, e := range f.kept {
		if !e.Position().After(at) || e.Index <= f.gone || len(page.Entries) == limit {
			continue
		}
		page.Next = page.Next.With(3, e.Position())
		if matches(e, filter) {
			page.Entries = append(page.Entries, feed.Entry{Event: e, Cursor: page.Next})
		}
	}
	return page, f.err
}

func matches(e *historypb.Event, f feed.Filter) bool {
	for _, l := range f.Labels {
		if !slices.ContainsFunc(e.Labels, func(of *historypb.Label) bool { return of.Name == l.Name && of.Value == l.Value }) {
			return false
		}
	}
	return (f.Queue == "" || f.Queue == e.Queue) && strings.HasPrefix(e.Task, f.Prefix) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, e.Type)) && e.AtMs >= f.Since.UnixMilli()
}
