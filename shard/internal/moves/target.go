package moves

import (
	"context"
	"fmt"
	"sync"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The slots are sealed once at most fewChanges are left. If there are always more, the bound doubles after each
// patience batches of changes up to mostChanges, because a source may change as fast as the copies follow. More changes
// would keep the callers waiting for too long.
const (
	fewChanges  = 256
	mostChanges = 4096
	patience    = 16
)

// Pull describes a move to its target. Its functions are called one at a time.
type Pull struct {
	Move   uint64
	Ranges []fsm.SlotRange
	// Fetch asks the leader of the source for a batch.
	Fetch func(ctx context.Context, r Request) (Batch, error)
	// Commit commits a command in the target's log.
	Commit func(ctx context.Context, c *fsmpb.Command) error
	// Seal commits SealSlots in the source's log. It may be called again after an error.
	Seal func(ctx context.Context) error
	// Pace waits until so many bytes of copies may have passed. If ctx ends first, it returns an error and the number of
	// bytes that the copy must still wait for. It is not called for changes. Nil: no limit.
	Pace func(ctx context.Context, bytes int) (left int, err error)
}

// Progress tells how far a move is.
type Progress struct {
	Tasks, Bytes uint64 // copied so far, changes included
	Copied       bool   // only changes are left
	Left         int    // changes that the source had left at the last batch
	Sealed       bool
	Ready        bool
}

const phases = 3

// phase returns the number of phases that are over.
func (p Progress) phase() int {
	switch {
	case p.Ready:
		return phases
	case p.Sealed:
		return 2
	case p.Copied:
		return 1
	}
	return 0
}

// Target copies the tasks of a move at the leader of its target, one move at a time.
type Target struct {
	made    sync.Once     // guards the making of turn
	turn    chan struct{} // holds an element while a Pull runs, which alone uses the fields below
	move    uint64        // 0: none
	session uint64
	batch   uint64 // number of the last batch committed
	few     int    // changes left at which the slots are sealed
	rounds  int    // batches of changes since few was set
	ahead   int    // bytes that were copied before their turn: see Pull.Pace

	progress sync.Mutex // guards now
	now      Progress
}

// Pull goes on with a move until a phase of it is over or ctx ends: until the tasks are copied, the slots are sealed,
// or they are ready. So the caller knows of a seal at once. Pull returns the progress also with an error. It waits
// while another Pull runs. copies is the number of copies that the shard holds. The move may go on after an error,
// unless the error wraps ErrLost.
func (t *Target) Pull(ctx context.Context, p Pull, copies uint64) (Progress, error) {
	t.made.Do(func() { t.turn = make(chan struct{}, 1) })
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return t.Progress(), nil
	}
	if t.move != p.Move {
		if copies > 0 {
			return Progress{}, fmt.Errorf("move %d: %w", p.Move, ErrLost)
		}
		t.move, t.session, t.batch, t.few, t.rounds, t.ahead = p.Move, 0, 0, fewChanges, 0, 0
		t.report(func(now *Progress) { *now = Progress{} })
	}
	var err error
	for before := t.Progress().phase(); err == nil && t.Progress().phase() == before && before < phases; {
		err = t.step(ctx, p)
	}
	return t.Progress(), err
}

// Progress returns the progress of the last move.
func (t *Target) Progress() Progress {
	t.progress.Lock()
	defer t.progress.Unlock()
	return t.now
}

func (t *Target) report(change func(*Progress)) {
	t.progress.Lock()
	defer t.progress.Unlock()
	change(&t.now)
}

// step fetches and commits one batch, and then seals the slots or ends the copy if it is time.
func (t *Target) step(ctx context.Context, p Pull) error {
	if err := t.pace(ctx, p); err != nil {
		return err
	}
	b, err := p.Fetch(ctx, Request{Move: p.Move, Ranges: p.Ranges, Session: t.session, Batch: t.batch + 1})
	if err != nil {
		return err
	}
	bytes, err := t.take(ctx, p, b)
	if err != nil {
		return err
	}
	t.session = b.Session
	t.batch++
	copied := t.Progress().Copied
	t.report(func(now *Progress) {
		now.Tasks, now.Bytes = now.Tasks+uint64(len(b.Tasks)), now.Bytes+uint64(bytes)
		now.Copied, now.Left = b.Copied, b.Left
	})
	switch {
	case b.Ready != nil:
		if err := flawSealsLate(ctx, t, p); err != nil {
			return err
		}
		return t.ready(ctx, p, b.Ready)
	case !b.Copied:
		t.ahead = bytes
		return nil
	case !copied, t.Progress().Sealed, flawReadsUnsealed():
		return nil
	case b.Left <= t.few:
		return t.seal(ctx, p)
	}
	if t.rounds++; t.rounds%patience == 0 {
		t.few = min(2*t.few, mostChanges)
	}
	return nil
}

// pace waits for the turn of the last batch. The rest of a wait that ctx has cut short comes before the next batch, in
// the next Pull.
func (t *Target) pace(ctx context.Context, p Pull) (err error) {
	if p.Pace == nil || t.ahead == 0 {
		return nil
	}
	t.ahead, err = p.Pace(ctx, t.ahead)
	return err
}

// take commits the copies of a batch and returns their size in bytes. A repeated batch changes nothing.
func (t *Target) take(ctx context.Context, p Pull, b Batch) (bytes int, err error) {
	if len(b.Tasks)+len(b.Gone) == 0 {
		return 0, nil
	}
	for _, task := range b.Tasks {
		bytes += len(task)
	}
	return bytes, p.Commit(ctx, &fsmpb.Command{Op: &fsmpb.Command_ImportTasks{ImportTasks: &fsmpb.ImportTasks{
		Move: p.Move, Tasks: b.Tasks, Gone: b.Gone,
	}}})
}

// seal has the source sealed. From now on calls wait, so the rest must come soon.
func (t *Target) seal(ctx context.Context, p Pull) error {
	if err := p.Seal(ctx); err != nil {
		return fmt.Errorf("move %d: seal: %w", p.Move, err)
	}
	t.report(func(now *Progress) { now.Sealed = true })
	return nil
}

func (t *Target) ready(ctx context.Context, p Pull, numbers *fsmpb.ReadySlots) error {
	numbers.Move = p.Move
	if err := p.Commit(ctx, &fsmpb.Command{Op: &fsmpb.Command_ReadySlots{ReadySlots: numbers}}); err != nil {
		return err
	}
	t.report(func(now *Progress) { now.Sealed, now.Ready = true, true })
	return nil
}
