package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/assert"
)

// fake is a cluster that accepts every operation, after it has failed the first tries of each.
type fake struct {
	failures int

	mu     sync.Mutex // guards what follows
	tried  map[int64]int
	made   []string // operations, in the order of their first tries
	leases []Lease
}

func (f *fake) Try(_ context.Context, rng *rand.Rand, op Operation) (history.Outcome, history.Answer) {
	rng.Uint64()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried[op.What.Op]++
	if f.tried[op.What.Op] == 1 && !strings.Contains(op.What.ID, "hot") { // calls of hot ids have no order
		f.made = append(f.made, fmt.Sprint(op.What.ID, " ", op.What.Kind, " ", op.What.Ask.Delay, op.What.Ask.OrSchedule))
	}
	if f.tried[op.What.Op] <= f.failures {
		return history.Unknown, history.Answer{Status: 504}
	}
	return history.OK, history.Answer{Revision: 4}
}

func (f *fake) Batch(ctx context.Context, rng *rand.Rand, ops []Operation) []history.Ending {
	var endings []history.Ending
	for _, op := range ops[:len(ops)/2] { // the others get no answer
		outcome, answer := f.Try(ctx, rng, op)
		endings = append(endings, history.Ending{Outcome: outcome, Answer: answer})
	}
	return endings
}

func (f *fake) Lease(ctx context.Context, _ *rand.Rand) ([]Lease, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	leases := f.leases
	f.leases = nil
	return leases, len(leases) > 0
}

func newFake(seed uint64, failures int) (*fake, *Player) {
	f := &fake{failures: failures, tried: map[int64]int{}}
	even := map[string]int{}
	for _, s := range scripts {
		even[s.name] = 1
	}
	return f, New(Config{
		Driver: f, Recorder: history.NewRecorder(nil), Seed: seed, Prefix: "t-", Weights: even, Hot: 2, HotEvery: 12,
		HotQueue: "pull",
		RetryFor: time.Minute, MaxPause: time.Second, Queues: []string{"q"}, Pulled: "pull", Ordered: "order", Groups: 3,
		Draw: Draw{
			After: func(rng *rand.Rand) time.Duration { return upTo(rng, time.Minute) },
			Pause: func(rng *rand.Rand) time.Duration { return upTo(rng, time.Second) },
			Queue: func(rng *rand.Rand) string { return []string{"", "pull"}[rng.IntN(2)] },
			Hold:  time.Second, Fail: 3, Attempts: 3, Gone: true, Expires: time.Second, HotDelay: time.Second,
			LeaseFor: func(rng *rand.Rand) time.Duration { return time.Second + upTo(rng, time.Second) },
			Overdue:  time.Second, NackFor: time.Second,
		},
	})
}

// TestSeedDecides checks that all scripts end, and that the same seed asks for the same operations, however often each
// must be tried.
func TestSeedDecides(t *testing.T) {
	plan := func(seed uint64, failures int) (made []string) {
		synctest.Test(t, func(t *testing.T) {
			f, p := newFake(seed, failures)
			for i := range 200 {
				p.Play(t.Context(), i)
			}
			made = f.made
		})
		return made
	}
	one := plan(1, 0)
	if again := plan(1, 0); len(one) < 200 || !slices.Equal(one, again) {
		t.Errorf("the same seed asks for %d operations, and then for other %d", len(one), len(again))
	}
	if late := plan(1, 3); !slices.Equal(one, late) {
		t.Errorf("%d operations, and %d that are not the same when each must be tried again", len(one), len(late))
	}
	if slices.Equal(one, plan(2, 0)) {
		t.Error("two seeds ask for the same")
	}
}

// TestWeigh checks that a weight replaces the usual one of its script alone, and that a wrong name panics.
func TestWeigh(t *testing.T) {
	changes := map[string]int{"plain": 7, "pulled": 0}
	usual, changed := weigh(nil), weigh(changes)
	for i, s := range scripts {
		want, ok := changes[s.name]
		if !ok {
			want = s.weight
		}
		if usual[i].weight != s.weight || changed[i].weight != want {
			t.Errorf("%s: usual %d, changed %d, want %d and %d", s.name, usual[i].weight, changed[i].weight, s.weight, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a script that does not exist got a weight")
		}
	}()
	weigh(map[string]int{"palin": 7})
}

// TestPerform checks that an operation is tried until the answer is final or its time is up.
func TestPerform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newFake(1, 5)
		rng := rand.New(rand.NewPCG(1, 1))
		op := p.Cancel("a")
		if outcome, _ := p.Perform(t.Context(), rng, op); outcome != history.OK || f.tried[op.What.Op] != 6 {
			t.Errorf("%s after %d tries", outcome, f.tried[op.What.Op])
		}
		f.failures = 1 << 30
		began := time.Now()
		op = p.Cancel("a")
		if outcome, _ := p.Perform(t.Context(), rng, op); outcome != history.Unknown || time.Since(began) < time.Minute {
			t.Errorf("%s after %v", outcome, time.Since(began))
		}
	})
}

func TestFinal(t *testing.T) {
	for _, c := range []struct {
		outcome history.Outcome
		answer  history.Answer
		want    bool
	}{
		{history.OK, history.Answer{}, true},
		{history.Failed, history.Answer{Status: 404}, true},
		{history.Failed, history.Answer{Status: 429}, false},
		{history.Failed, history.Answer{Status: 503}, false},
		{history.Failed, history.Answer{Status: 200, Replaced: true}, true},
		{history.Unknown, history.Answer{}, false},
	} {
		assert.Equal(t, Final(c.outcome, c.answer), c.want, "%s %+v", c.outcome, c.answer)
	}
}

// TestBatchOfAllKinds checks that batches have lines of every allowed kind, some about the ids of earlier lines.
func TestBatchOfAllKinds(t *testing.T) {
	_, p := newFake(1, 0)
	rng := rand.New(rand.NewPCG(1, 0))
	kinds, again := map[history.Kind]int{}, 0
	made := map[string]bool{}
	for i := range 200 {
		op := p.batchLine(rng, "t", i)
		kinds[op.What.Kind]++
		if made[op.What.ID] {
			again++
		}
		made[op.What.ID] = true
	}
	for _, kind := range []history.Kind{history.Schedule, history.Touch, history.Cancel, history.Fire} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among %v", kind, kinds)
		}
		delete(kinds, kind)
	}
	if again == 0 || len(kinds) > 0 {
		t.Errorf("%d lines are about an earlier id; kinds that cannot be lines: %v", again, kinds)
	}
}

// TestConsume checks that a consumer treats each lease that it does not forget, and returns when all are settled.
func TestConsume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newFake(3, 0)
		for i := range 200 {
			a := history.Arrival{ID: fmt.Sprint(i), Attempt: 1, LeaseEnds: p.cfg.Recorder.Now().Add(time.Second)}
			f.leases = append(f.leases, Lease{Arrival: a, Payload: Payload{Fail: i % 2}})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p.Consume(ctx, rand.New(rand.NewPCG(3, 3)))
		settled := map[history.Kind]int{}
		for _, line := range f.made {
			for _, kind := range []history.Kind{history.Ack, history.Nack, history.Extend, history.Release} {
				if strings.Contains(line, string(kind)) {
					settled[kind]++
				}
			}
		}
		if settled[history.Nack] < 100 || settled[history.Ack] < 50 || settled[history.Extend]*settled[history.Release] == 0 {
			t.Errorf("settled: %v", settled)
		}
	})
}

func TestPayload(t *testing.T) {
	p := Payload{Op: 7, Fail: 2, Hold: 30, Gone: true}
	if got := Decode(p.Encode()); got != p || p.HoldFor() != 30*time.Millisecond {
		t.Errorf("%+v became %+v", p, got)
	}
	assert.Equal(t, Decode([]byte("what?")), Payload{})
	if history.Fingerprint(nil) != 0 || history.Fingerprint(p.Encode()) == 0 {
		t.Error("a nil body has a fingerprint, or a payload has none")
	}
}
