package imports

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/belfryhq/belfry/client"
)

// Verification counts the tasks of an import that were read back from the cluster.
type Verification struct {
	Same      int `json:"same"`      // due time, queue and payload are those of the record
	Finished  int `json:"finished"`  // due meanwhile, and no longer kept by the cluster
	Missing   int `json:"missing"`   // not due yet, and not in the cluster
	Different int `json:"different"` // another due time, queue or payload
}

// content is the part of a task that an import compares.
type content struct {
	due            int64  // Unix milliseconds
	queue, payload uint64 // hashes
}

var seed = maphash.MakeSeed()

func contentOf(t *client.Task) content {
	payload := t.PayloadBytes
	if t.Payload != nil {
		var compact bytes.Buffer
		if payload = t.Payload; json.Compact(&compact, t.Payload) == nil { // a batch leaves out line breaks
			payload = compact.Bytes()
		}
	}
	queue := maphash.String(seed, cmp.Or(t.Queue, "default"))
	return content{due: t.FireAt.UnixMilli(), queue: queue, payload: maphash.Bytes(seed, payload)}
}

// difference returns the first difference of a stored task, as the predicate of a sentence; empty: none.
func (c content) difference(found *client.Task) string {
	is := contentOf(found)
	switch {
	case is.due != c.due:
		stamp := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }
		return fmt.Sprintf("is due at %s, and not at %s", stamp(is.due), stamp(c.due))
	case is.queue != c.queue:
		return "is in the queue " + cmp.Or(found.Queue, "default")
	case is.payload != c.payload && (hasPayload(found) || !hasEnded(found)): // a tombstone has no payload
		return "has another payload"
	}
	return ""
}

func hasPayload(t *client.Task) bool { return t.Payload != nil || t.PayloadBytes != nil }

// hasEnded reports whether a task is a tombstone.
func hasEnded(t *client.Task) bool {
	return t.State == client.StateDelivered || t.State == client.StateDead || t.State == client.StateCancelled
}

// scheduleDifference is content.difference for a schedule.
func scheduleDifference(want, found *client.Schedule) string {
	a, b := want.Task, found.Task
	switch {
	case !slices.Equal(want.Repeat.Cron, found.Repeat.Cron) ||
		cmp.Or(want.Repeat.TimeZone, "UTC") != cmp.Or(found.Repeat.TimeZone, "UTC"):
		return fmt.Sprintf("repeats by %q in %s", found.Repeat.Cron, cmp.Or(found.Repeat.TimeZone, "UTC"))
	case want.Repeat.Every != found.Repeat.Every:
		return fmt.Sprintf("repeats every %v", found.Repeat.Every)
	case cmp.Or(a.Queue, "default") != cmp.Or(b.Queue, "default"):
		return "is in the queue " + cmp.Or(b.Queue, "default")
	case contentOf(&a).payload != contentOf(&b).payload:
		return "has another payload"
	}
	return ""
}

// ledger holds the tasks that an import has seen in the cluster.
type ledger struct {
	tasks     map[string]content
	schedules map[string]*client.Schedule
	prefix    string // which the ids of all tasks share
}

func newLedger() *ledger {
	return &ledger{tasks: map[string]content{}, schedules: map[string]*client.Schedule{}}
}

func (l *ledger) add(record *Record) {
	id := record.id()
	if record.Schedule != nil {
		l.schedules[id] = record.Schedule
		return
	}
	if len(l.tasks) == 0 {
		l.prefix = id
	}
	n := 0
	for n < min(len(l.prefix), len(id)) && l.prefix[n] == id[n] {
		n++
	}
	l.prefix = id[:n]
	l.tasks[id] = contentOf(&record.Task)
}

// listed is the number of tasks in a page of a list.
const listed = 1000

// check reads the tasks of the ledger back, and compares them. It empties the ledger.
func (l *ledger) check(ctx context.Context, c *client.Client, report func(Trouble)) (*Verification, error) {
	v := new(Verification)
	if len(l.tasks) > 0 {
		for task, err := range c.List(ctx, client.Filter{Prefix: l.prefix, Payload: true, PageSize: listed}) {
			if err != nil {
				return v, err
			}
			if want, ours := l.tasks[task.ID]; ours {
				delete(l.tasks, task.ID)
				v.count(task.ID, want.difference(task), report)
			}
		}
	}
	for id, want := range l.tasks { // a task that moved during the list may be missing there
		task, err := c.Get(ctx, id)
		switch {
		case err == nil:
			v.count(id, want.difference(task), report)
		case !errors.Is(err, client.ErrNotFound):
			return v, err
		case want.due <= time.Now().UnixMilli():
			v.Finished++
		default:
			v.miss(id, report)
		}
	}
	for id, want := range l.schedules {
		found, err := c.GetSchedule(ctx, id)
		switch {
		case err == nil:
			v.count(id, scheduleDifference(want, found), report)
		case !errors.Is(err, client.ErrNotFound):
			return v, err
		default:
			v.miss(id, report)
		}
	}
	return v, nil
}

func (v *Verification) count(id, difference string, report func(Trouble)) {
	if difference == "" {
		v.Same++
		return
	}
	v.Different++
	report(Trouble{ID: id, Reason: "in the cluster it " + difference})
}

func (v *Verification) miss(id string, report func(Trouble)) {
	v.Missing++
	report(Trouble{ID: id, Reason: "it is not in the cluster"})
}
