package moves

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

var whole = []*fsmpb.SlotRange{{First: 0, End: task.Slots}}

func all() []fsm.SlotRange { return []fsm.SlotRange{{First: 0, End: task.Slots}} }

// leader applies commands as the leader of a shard does.
type leader struct {
	t *testing.T
	*fsm.Machine
}

func (l leader) commit(c *fsmpb.Command) error {
	data, err := (&fsmpb.Entry{Version: fsm.CommandVersion, AtMs: 1000, Commands: []*fsmpb.Command{c}}).MarshalVT()
	if err != nil {
		return err
	}
	applied, err := l.Apply(data, true)
	if err == nil && applied.Results[0].Code != fsmpb.Code_CODE_OK && applied.Results[0].Code != fsmpb.Code_CODE_CREATED {
		err = fmt.Errorf("answered %v", applied.Results[0])
	}
	return err
}

func (l leader) schedule(id string) {
	l.t.Helper()
	if err := l.commit(&fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		FireAtMs: 5000, Spec: &fsmpb.Spec{Payload: []byte("payload")},
	}}}); err != nil {
		l.t.Fatal(err)
	}
}

// between returns the leaders of a source with tasks and of a target that expects move 7, and the move.
func between(t *testing.T, tasks int) (source, target leader, s *Source, p Pull) {
	t.Helper()
	source, target = leader{t, fsm.New(1)}, leader{t, fsm.New(2)}
	for i := range tasks {
		source.schedule(fmt.Sprint("task-", i))
	}
	s = NewSource(source.Machine)
	p = Pull{
		Move: 7, Ranges: all(),
		Fetch:  func(_ context.Context, r Request) (Batch, error) { return s.Next(r) },
		Commit: func(_ context.Context, c *fsmpb.Command) error { return target.commit(c) },
		Seal:   func(context.Context) error { return source.commit(sealOf(7)) },
	}
	assert.NoError(t, target.commit(expectOf(7)))
	return source, target, s, p
}

func expectOf(move uint64) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{
		Move: move, Ranges: whole, From: 1, Epoch: move,
	}}}
}

func sealOf(move uint64) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_SealSlots{SealSlots: &fsmpb.SealSlots{
		Move: move, Ranges: whole, To: 2, Epoch: move,
	}}}
}

// giveUp ends move 7 as the control group does.
func giveUp(t *testing.T, source, target leader) {
	t.Helper()
	if err := errors.Join(source.commit(&fsmpb.Command{Op: &fsmpb.Command_UnsealSlots{UnsealSlots: &fsmpb.UnsealSlots{
		Move: 7, Max: 100, Ranges: whole, To: 2, Epoch: 7,
	}}}), target.commit(&fsmpb.Command{Op: &fsmpb.Command_AbandonSlots{AbandonSlots: &fsmpb.AbandonSlots{
		Move: 7, Max: 100, Ranges: whole, From: 1, Epoch: 7,
	}}})); err != nil {
		t.Fatal(err)
	}
}

// A seal is on its way while its move is given up. It is refused when it comes, and the next move copies and seals.
func TestLateSealOfGivenUpMove(t *testing.T) {
	source, target, _, p := between(t, 10)
	silent := errors.New("the source does not answer")
	p.Seal = func(context.Context) error { return silent } // it has left, and is late
	var pulling Target
	for err := error(nil); !errors.Is(err, silent); {
		if _, err = pulling.Pull(t.Context(), p, target.Copies()); err != nil && !errors.Is(err, silent) {
			t.Fatal(err)
		}
	}
	giveUp(t, source, target)
	assert.Error(t, source.commit(sealOf(7)), "the late seal is taken")
	assert.NoError(t, target.commit(expectOf(8)))
	p.Move, p.Seal = 8, func(context.Context) error { return source.commit(sealOf(8)) }
	var progress Progress
	for err := error(nil); !progress.Ready; {
		progress, err = pulling.Pull(t.Context(), p, target.Copies())
		assert.NoError(t, err, "%+v", progress)
	}
}

// A copy goes on while tasks come, and after each step that fails: batches that were lost are asked for again.
func TestTargetGoesOnAfterFailures(t *testing.T) {
	source, target, _, p := between(t, 3000)
	calls, failed := 0, errors.New("failed")
	flaky := func() error {
		if calls++; calls%3 == 0 {
			return failed
		}
		return nil
	}
	fetch, commit, seal, sealed := p.Fetch, p.Commit, p.Seal, false
	p.Fetch = func(ctx context.Context, r Request) (Batch, error) {
		if calls < 60 && !sealed {
			source.schedule(fmt.Sprint("late-", calls))
		}
		b, err := fetch(ctx, r) // the source has answered, and the answer is lost
		return b, errors.Join(err, flaky())
	}
	p.Commit = func(ctx context.Context, c *fsmpb.Command) error { return errors.Join(commit(ctx, c), flaky()) }
	p.Seal = func(ctx context.Context) error {
		sealed = true
		return errors.Join(seal(ctx), flaky())
	}
	var pulling Target
	for tries := 0; ; tries++ {
		progress, err := pulling.Pull(t.Context(), p, target.Copies())
		if progress.Ready {
			break
		}
		if err != nil && !errors.Is(err, failed) || tries > 1000 {
			t.Fatalf("try %d: %+v, %v", tries, progress, err)
		}
	}
	if got := pulling.Progress(); got.Tasks < 3000 || got.Bytes < 3000*20 || !got.Copied || !got.Sealed || got.Left != 0 {
		t.Errorf("%+v", got)
	}
	if got, want := target.Copies(), uint64(source.Counts().Tasks); got != want {
		t.Errorf("%d copies of %d tasks", got, want)
	}
}

// A Target without memory of a move that has copies, and a Source without memory of a session, end the copy.
func TestTargetAndSourceNoticeALoss(t *testing.T) {
	_, target, s, p := between(t, 3000)
	ctx, cancel := context.WithCancel(t.Context())
	fetch := p.Fetch
	fetched := 0
	p.Fetch = func(_ context.Context, r Request) (Batch, error) {
		if fetched++; fetched == 3 {
			cancel()
			return Batch{}, ctx.Err()
		}
		return fetch(ctx, r)
	}
	var first, second Target
	if _, err := first.Pull(ctx, p, target.Copies()); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err := second.Pull(t.Context(), p, target.Copies())
	assert.ErrorIs(t, err, ErrLost, "another leader of the target goes on")
	*s = *NewSource(fsm.New(1)) // another leader of the source
	_, err = first.Pull(t.Context(), p, target.Copies())
	assert.ErrorIs(t, err, ErrLost, "another leader of the source goes on")
	s.Stop()
	_, err = s.Next(Request{Move: 8, Ranges: all()})
	assert.ErrorIs(t, err, ErrLost, "an ended leadership begins a session")
}

func TestSourceRefusesOtherBatches(t *testing.T) {
	_, _, s, _ := between(t, 3000)
	first, err := s.Next(Request{Move: 7, Ranges: all(), Batch: 1})
	if err != nil || len(first.Tasks) == 0 || first.Copied {
		t.Fatalf("%d tasks, %v", len(first.Tasks), err)
	}
	again, err := s.Next(Request{Move: 7, Ranges: all(), Session: first.Session, Batch: 1})
	if err != nil || fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("the first batch again is another one: %v", err)
	}
	for _, r := range []Request{
		{Session: first.Session, Batch: 3}, {Session: first.Session + 1, Batch: 2}, {Session: first.Session, Batch: 0},
	} {
		_, err := s.Next(r)
		assert.ErrorIs(t, err, ErrLost, "%+v", r)
	}
}

// The slots are sealed although all tasks change during each batch.
func TestTargetSealsABusySource(t *testing.T) {
	const tasks = 900
	source, target, _, p := between(t, tasks)
	left, sealedAt := 0, -1
	fetch, seal := p.Fetch, p.Seal
	p.Seal = func(ctx context.Context) error {
		sealedAt = left
		return seal(ctx)
	}
	p.Fetch = func(ctx context.Context, r Request) (Batch, error) {
		for i := range map[bool]int{false: tasks, true: 0}[sealedAt >= 0] {
			source.schedule(fmt.Sprint("task-", i))
		}
		b, err := fetch(ctx, r)
		left = b.Left
		return b, err
	}
	var pulling Target
	for _, want := range []Progress{{Copied: true}, {Copied: true, Sealed: true}, {Copied: true, Sealed: true, Ready: true}} {
		got, err := pulling.Pull(t.Context(), p, target.Copies())
		if err != nil || got.Copied != want.Copied || got.Sealed != want.Sealed || got.Ready != want.Ready {
			t.Fatalf("a phase is over at %+v, want %+v; %v", got, want, err)
		}
	}
	if sealedAt <= fewChanges || sealedAt > mostChanges {
		t.Errorf("sealed with %d changes left", sealedAt)
	}
}

// TestPullWaitsForItsTurn calls Pull while another Pull runs. The second waits: a driver that asks again at once must not
// turn in circles.
func TestPullWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var target Target
		first := Pull{Move: 1, Fetch: func(ctx context.Context, _ Request) (Batch, error) {
			<-ctx.Done()
			return Batch{}, ctx.Err()
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = target.Pull(ctx, first, 0) }()
		synctest.Wait()
		limited, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		began := time.Now()
		if _, err := target.Pull(limited, first, 0); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// The copy waits for the turn of its bytes, and each Pull goes on with the wait of the one before. Changes do not wait.
func TestTargetKeepsItsPace(t *testing.T) {
	_, target, _, p := between(t, 3000)
	var pulling Target
	asked, waited := 0, 0
	cut := errors.New("the time is over")
	p.Pace = func(_ context.Context, bytes int) (int, error) {
		if asked++; asked%2 == 1 {
			waited += bytes - bytes/2
			return bytes / 2, cut
		}
		waited += bytes
		return 0, nil
	}
	fetch := p.Fetch
	p.Fetch = func(ctx context.Context, r Request) (Batch, error) {
		if now := pulling.Progress(); uint64(waited) != now.Bytes && !now.Copied {
			t.Errorf("a batch is fetched after %d bytes, and %d have had their turn", now.Bytes, waited)
		}
		return fetch(ctx, r)
	}
	short := 0
	for pulls := 1; !pulling.Progress().Ready; pulls++ {
		progress, err := pulling.Pull(t.Context(), p, target.Copies())
		switch {
		case errors.Is(err, cut):
			short++
		case err != nil || pulls > 1000:
			t.Fatalf("pull %d: %+v, %v", pulls, progress, err)
		}
	}
	if batches := asked / 2; batches < 2 || short != batches {
		t.Errorf("%d pulls were cut short for %d batches that wait", short, batches)
	}
}
