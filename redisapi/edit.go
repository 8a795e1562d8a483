package redisapi

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/client"
)

// edit is a change of one task, which may depend on the task.
type edit struct {
	id string
	// plan returns the operation for the present task, or false if there is nothing to do. The task is nil if there is
	// none, or if the edit is blind.
	plan  func(present *client.Task) (client.Op, bool)
	blind bool // plan needs no task

	present *client.Task // as plan has seen it
	moves   bool         // set by plan: a member gets another score
	op      client.Op
	done    bool // the operation was carried out
	result  client.Result
	err     error // worded for the caller
	tries   int
}

const (
	editTries = 8  // for one task that keeps changing
	editReads = 16 // at the same time
)

var errKeepsChanging = errors.New("TRYAGAIN the task keeps changing")

// carryOut carries out edits in rounds of one batch each. A round has one edit of each id, so that each sees what those
// before it have left. An edit whose task has changed since it was read comes again.
func carryOut(ctx context.Context, c *client.Client, edits []*edit) {
	for todo := edits; len(todo) > 0; {
		now, later := firstOfEach(todo)
		readAll(ctx, c, now)
		var planned []*edit
		for _, e := range now {
			if e.err != nil {
				continue
			}
			var ok bool
			if e.op, ok = e.plan(e.present); ok {
				planned = append(planned, e)
			}
		}
		todo = append(commit(ctx, c, planned), later...)
	}
}

// firstOfEach splits edits into the first one of each id, and the others in order.
func firstOfEach(edits []*edit) (first, others []*edit) {
	seen := make(map[string]bool, len(edits))
	for _, e := range edits {
		if seen[e.id] {
			others = append(others, e)
		} else {
			first = append(first, e)
		}
		seen[e.id] = true
	}
	return first, others
}

func readAll(ctx context.Context, c *client.Client, edits []*edit) {
	var reads errgroup.Group
	reads.SetLimit(editReads)
	for _, e := range edits {
		if e.blind {
			continue
		}
		reads.Go(func() error {
			var err error
			if e.present, err = get(ctx, c, e.id); err != nil {
				e.err = refusal(err)
			}
			return nil
		})
	}
	_ = reads.Wait() // there are no errors
}

// get returns a task, tombstones included, or nil if there is none.
func get(ctx context.Context, c *client.Client, id string) (*client.Task, error) {
	t, err := c.Get(ctx, id)
	if errors.Is(err, client.ErrNotFound) {
		return nil, nil
	}
	return t, err
}

// commit carries out operations, and returns the edits that must come again.
func commit(ctx context.Context, c *client.Client, edits []*edit) (again []*edit) {
	i := 0
	ops := func(yield func(client.Op) bool) {
		for _, e := range edits {
			if !yield(e.op) {
				return
			}
		}
	}
	for result := range c.Batch(ctx, ops) {
		e := edits[i]
		i++
		e.tries++
		switch {
		case result.Err == nil:
			e.done, e.result = true, result
		case !errors.Is(result.Err, client.ErrPrecondition) && !errors.Is(result.Err, client.ErrNotFound):
			e.err = refusal(result.Err)
		case e.tries == editTries:
			e.err = errKeepsChanging
		default: // another call was faster, or the tombstone has ended
			again = append(again, e)
		}
	}
	return again
}

// conditionOf returns the condition that a task is as it was read.
func conditionOf(present *client.Task) client.Option {
	if present == nil {
		return client.IfAbsent()
	}
	return client.IfRevision(present.Revision)
}

// firstError returns the error of the first edit that has one.
func firstError(edits []*edit) error {
	if i := slices.IndexFunc(edits, func(e *edit) bool { return e.err != nil }); i >= 0 {
		return edits[i].err
	}
	return nil
}
