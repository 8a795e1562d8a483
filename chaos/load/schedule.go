package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/wait"
)

// ScheduleOperation is one request about a schedule.
type ScheduleOperation struct {
	What  history.ScheduleCall
	Rule  Rule   // of a put
	Queue string // of a put: queue of the occurrences; empty: they have the receiver as their own target
	Body  []byte // of a put: payload of the occurrences
}

// Rule says when a schedule has occurrences. Every or Cron is set.
type Rule struct {
	Every    time.Duration
	Cron     string
	TimeZone string // of Cron; empty: UTC
	Count    int64  // most occurrences; 0: no limit
}

// ScheduleDriver makes single tries of calls about schedules, each through a node that it draws. It records nothing.
type ScheduleDriver interface {
	// TrySchedule tries an operation once. The answer has a status if there was one.
	TrySchedule(ctx context.Context, rng *rand.Rand, op ScheduleOperation) (history.Outcome, history.Answer)
	// ReadSchedule reads a schedule. The tally has no occurrences that were found.
	ReadSchedule(ctx context.Context, rng *rand.Rand, id string) (history.Tally, error)
	// HasTask reads a task.
	HasTask(ctx context.Context, rng *rand.Rand, id string) (bool, error)
}

// ScheduleConfig describes the schedules of a load. All fields but Namespace, Crons, Queues, Steady and Hold are
// required.
type ScheduleConfig struct {
	Driver    ScheduleDriver
	Recorder  *history.Recorder
	Seed      uint64
	Namespace string
	Prefix    string // of all ids
	Count     int    // schedules

	Begin func(*rand.Rand) time.Duration // until a schedule is made
	Every func(*rand.Rand) time.Duration // interval of a schedule
	Pause func(*rand.Rand) time.Duration // between two calls about a schedule
	Crons []Rule
	// Queues are queues with a target of their own.
	Queues []string
	// Steady makes all schedules steady, and lets all missed occurrences run. All but the first have a count.
	Steady bool
	Hold   time.Duration // longest time for which answers to occurrences are held back

	RetryFor time.Duration // how long an operation is repeated
	MaxPause time.Duration // longest pause between two tries
}

// Schedules plays schedules, each by one caller. Its methods must not overlap.
type Schedules struct {
	cfg ScheduleConfig
	all []*repeater
}

// repeater is the caller of one schedule.
type repeater struct {
	cfg  *ScheduleConfig
	id   string
	rng  *rand.Rand
	rule Rule

	overlap, misfire string
	play             func(*repeater, context.Context) bool // makes one call after a pause; false: there are no more

	made history.Outcome // of the first put; empty: it was not tried
}

// NewSchedules makes the callers of schedules. They make no call yet.
func NewSchedules(cfg ScheduleConfig) *Schedules {
	s := &Schedules{cfg: cfg}
	for i := range max(cfg.Count, 0) {
		s.all = append(s.all, newRepeater(&s.cfg, i))
	}
	return s
}

// The policies of schedules.
var (
	overlaps = []string{history.OverlapAllow, "queue_all", "skip", "queue_one", "cancel_previous"}
	misfires = []string{history.MisfireAll, "latest", "skip"}
)

// mostCounted is the largest count of a schedule that ends by itself.
const mostCounted = 12

// newRepeater draws the schedule of a number. The first one is steady: it runs beside itself, and no call changes it.
func newRepeater(cfg *ScheduleConfig, i int) *repeater {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x73636864+uint64(i)))
	r := &repeater{cfg: cfg, rng: rng, id: cfg.Prefix + strconv.Itoa(i), overlap: history.OverlapAllow}
	r.rule = Rule{Every: cfg.Every(rng).Truncate(time.Millisecond)}
	r.play = (*repeater).rest
	r.misfire = misfires[rng.IntN(len(misfires))]
	kind := rng.IntN(10)
	switch {
	case cfg.Steady:
		r.misfire = history.MisfireAll
		if i > 0 {
			r.rule.Count = mostCounted
		}
		return r
	case i == 0:
		return r
	}
	switch {
	case kind < 2:
		r.rule.Count = 1 + rng.Int64N(mostCounted)
	case kind < 4:
		r.overlap = overlaps[rng.IntN(len(overlaps))]
	case kind < 5:
		r.play = (*repeater).skip
	case kind < 6:
		r.play = (*repeater).remove
	default:
		r.overlap, r.play = overlaps[rng.IntN(len(overlaps))], (*repeater).change
		if len(cfg.Crons) > 0 && kind == 9 {
			r.rule = cfg.Crons[rng.IntN(len(cfg.Crons))]
		}
	}
	return r
}

// Run makes the schedules and plays their calls until stop is closed or ctx ends.
func (s *Schedules) Run(ctx context.Context, stop <-chan struct{}) {
	var callers sync.WaitGroup
	for _, r := range s.all {
		callers.Go(func() { r.run(ctx, stop) })
	}
	callers.Wait()
}

func (r *repeater) run(ctx context.Context, stop <-chan struct{}) {
	if !waitUntil(ctx, stop, r.cfg.Begin(r.rng)) {
		return
	}
	r.made = r.put(ctx)
	for goesOn := true; goesOn; {
		goesOn = waitUntil(ctx, stop, r.cfg.Pause(r.rng)) && r.play(r, ctx)
	}
}

// waitUntil waits for d. It returns false if stop is closed or ctx ends first.
func waitUntil(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}

// rest makes no call.
func (*repeater) rest(context.Context) bool { return false }

func (r *repeater) skip(ctx context.Context) bool {
	r.do(ctx, history.SkipNext)
	return true
}

func (r *repeater) remove(ctx context.Context) bool {
	r.do(ctx, history.DeleteSchedule)
	return false
}

// change makes one call of any kind but a deletion. A pause ends with the next call.
func (r *repeater) change(ctx context.Context) bool {
	switch n := r.rng.IntN(10); {
	case n < 3:
		r.do(ctx, history.FireSchedule)
	case n < 5:
		r.do(ctx, history.SkipNext)
	case n < 6:
		r.backfill(ctx)
	case n < 7:
		r.put(ctx)
	default:
		r.do(ctx, history.PauseSchedule)
		if wait.For(ctx, r.while()) {
			r.do(ctx, history.ResumeSchedule)
		}
	}
	return true
}

// put makes the schedule, or changes its interval.
func (r *repeater) put(ctx context.Context) history.Outcome {
	op := r.operation(history.PutSchedule)
	if r.made != "" && r.rule.Every > 0 {
		r.rule.Every = r.cfg.Every(r.rng).Truncate(time.Millisecond)
	}
	op.Rule, op.What.Every, op.What.Count = r.rule, r.rule.Every, r.rule.Count
	op.What.Overlap, op.What.Misfire = r.overlap, r.misfire
	if n := len(r.cfg.Queues); n > 0 && r.rng.IntN(3) == 0 {
		op.Queue = r.cfg.Queues[r.rng.IntN(n)]
	}
	hold := time.Duration(0)
	if r.rng.IntN(4) == 0 {
		hold = upTo(r.rng, r.cfg.Hold)
	}
	op.Body = Payload{Op: op.What.Op, Hold: hold.Milliseconds()}.Encode()
	op.What.Body = history.Fingerprint(op.Body)
	outcome, _ := r.perform(ctx, op)
	return outcome
}

// backfill asks for occurrences of the last few instants.
func (r *repeater) backfill(ctx context.Context) {
	op := r.operation(history.BackfillPast)
	now := r.cfg.Recorder.Now().Time()
	op.What.From, op.What.To = history.At(Ceil(now.Add(-r.while()))), history.At(Ceil(now))
	r.perform(ctx, op)
}

// while draws a time in which the schedule has some occurrences.
func (r *repeater) while() time.Duration {
	if r.rule.Every > 0 {
		return upTo(r.rng, 4*r.rule.Every)
	}
	return r.cfg.Pause(r.rng)
}

func (r *repeater) do(ctx context.Context, kind string) { r.perform(ctx, r.operation(kind)) }

func (r *repeater) operation(kind string) ScheduleOperation {
	return ScheduleOperation{What: history.ScheduleCall{
		Op: r.cfg.Recorder.NextOp(), Kind: kind, ID: r.id, Namespace: r.cfg.Namespace,
	}, Rule: r.rule}
}

// perform tries an operation until the answer is final, the time for repeats is up or ctx ends, and records it. It
// returns the last answer. A try of unknown outcome before a refusal may have happened.
func (r *repeater) perform(ctx context.Context, op ScheduleOperation) (history.Outcome, history.Answer) {
	tries, call := branch(r.rng), &op.What
	call.Start, call.Outcome = r.cfg.Recorder.Now(), history.Failed
	for pause := minPause; ; pause = min(2*pause, r.cfg.MaxPause) {
		outcome, answer := r.cfg.Driver.TrySchedule(ctx, tries, op)
		call.Tries++
		if outcome == history.OK || call.Outcome == history.Failed {
			call.Outcome = outcome
		}
		end := call.Start.Add(r.cfg.RetryFor)
		if Final(outcome, answer) || r.cfg.Recorder.Now() > end || !wait.For(ctx, pause) {
			r.cfg.Recorder.CalledSchedule(*call)
			return call.Outcome, answer
		}
	}
}

// mayExist reports whether the schedule may have been made.
func (r *repeater) mayExist() bool { return r.made == history.OK || r.made == history.Unknown }

// End pauses all schedules, so that they come to rest. An error names one that could not be paused. A cluster that
// holds an older command version takes no calls about schedules, and has none.
func (s *Schedules) End(ctx context.Context) error {
	return s.forEach(func(r *repeater) error {
		outcome, answer := r.perform(ctx, r.operation(history.PauseSchedule))
		if outcome == history.OK || answer.Status == http.StatusNotFound || r.isAbsent(ctx) {
			return nil
		}
		return fmt.Errorf("schedule %s could not be paused: %s", r.id, answer.Error)
	})
}

// isAbsent reports whether a schedule whose put was not acknowledged is not there.
func (r *repeater) isAbsent(ctx context.Context) bool {
	if r.made == history.OK {
		return false
	}
	tally, err := r.cfg.Driver.ReadSchedule(ctx, r.rng, r.id)
	return err == nil && tally.Absent
}

// Count reads all schedules and the occurrences that never arrived, and records them. The cluster must be at rest.
func (s *Schedules) Count(ctx context.Context) error {
	return s.forEach(func(r *repeater) error {
		tally, err := r.cfg.Driver.ReadSchedule(ctx, r.rng, r.id)
		if err != nil {
			return fmt.Errorf("schedule %s could not be read: %w", r.id, err)
		}
		tally.ID, tally.Namespace = r.id, r.cfg.Namespace
		if tally.Found, err = r.find(ctx, tally.Last); err != nil {
			return err
		}
		r.cfg.Recorder.Tally(tally)
		return nil
	})
}

// find returns the numbers of the occurrences that never arrived and whose tasks exist.
func (r *repeater) find(ctx context.Context, last uint64) (found []uint64, err error) {
	came := r.came()
	for n := uint64(1); n <= last; n++ {
		id := fmt.Sprintf("%s@%d", r.id, n)
		if came[id] {
			continue
		}
		switch exists, err := r.cfg.Driver.HasTask(ctx, r.rng, id); {
		case err != nil:
			return nil, fmt.Errorf("occurrence %s could not be read: %w", id, err)
		case exists:
			found = append(found, n)
		}
	}
	return found, nil
}

// came returns the ids of the occurrences that arrived.
func (r *repeater) came() map[string]bool {
	ids := map[string]bool{}
	r.cfg.Recorder.View(func(h *history.History) {
		for i := range h.Occurrences {
			a := &h.Occurrences[i]
			if id, _ := history.ScheduleOf(a.ID); id == r.id && a.Namespace == r.cfg.Namespace {
				ids[a.ID] = true
			}
		}
	})
	return ids
}

// forEach calls do for all schedules that may exist, several at a time, and returns the first error.
func (s *Schedules) forEach(do func(*repeater) error) error {
	errs := make([]error, len(s.all))
	var callers sync.WaitGroup
	for i, r := range s.all {
		if r.mayExist() {
			callers.Go(func() { errs[i] = do(r) })
		}
	}
	callers.Wait()
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}
