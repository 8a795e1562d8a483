package history

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belfryhq/belfry/history/historypb"
)

// MaxAnswer is the limit on the bytes of an event's answer. Append cuts longer ones.
const MaxAnswer = 512

type (
	// Event is one thing that happened to a task.
	Event = historypb.Event
	// Position is the place of an event in its shard.
	Position = historypb.Position
)

// Gap is a range of positions whose events are missing, both ends included.
type Gap struct {
	First, Last Position
}

// Page is some events of one namespace in one shard, oldest first.
type Page struct {
	Events []*Event // may be empty although events follow
	Gaps   []Gap    // between the position that was asked for and Next
	Next   Position // where to go on; the position that was asked for: nothing newer is there yet
}

// Story is the events of one task.
type Story struct {
	Events []*Event
	More   bool      // events were left out at the end
	Gaps   []Gap     // of all shards of the node, at any time: they may hide events of the task
	Since  time.Time // events before or at this instant may be gone; zero: none is gone
}

// Filter selects events. Its zero value selects all.
type Filter struct {
	Queue  string // empty: any
	Types  []historypb.Type
	Labels []*historypb.Label // all must be equal
	Prefix string             // of the task's id
	Since  time.Time          // of the entry, by its leader's clock
}

func (f *Filter) matches(e *Event) bool {
	return !instant(e.AtMs).Before(f.Since) && (f.Queue == "" || f.Queue == e.Queue) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, e.Type)) &&
		strings.HasPrefix(e.Task, f.Prefix) && f.labelled(e)
}

func (f *Filter) labelled(e *Event) bool {
	for _, want := range f.Labels {
		if !slices.ContainsFunc(e.Labels, func(l *historypb.Label) bool {
			return l.Name == want.Name && l.Value == want.Value
		}) {
			return false
		}
	}
	return true
}

// cut returns the start of a text, of whole characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

func instant(ms int64) time.Time { return time.UnixMilli(ms) }
