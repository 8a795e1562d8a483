package lend

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// branch is a shard's leader with an endless supply of tasks. It begins an attempt for each permit.
type branch struct {
	*Borrower
	run          *run
	shard        uint32
	holds        bool // it keeps its permits and begins no attempt
	begun, ended int
	wants        int
	priority     int
}

// run holds an owner and its borrowers.
type run struct {
	mu       sync.Mutex
	owner    *Lender[string, uint32]
	limit    Limit
	down     bool
	lag      time.Duration // of the owner's answers
	took     time.Duration // duration of an attempt
	inFlight int
	most     int // greatest number in flight at once
	branches []*branch
	calls    int
}

// Borrow asks the owner of the run, if there is one.
func (b *branch) Borrow(ctx context.Context, ask Borrow) (Loan, error) {
	r := b.run
	r.mu.Lock()
	owner, limit, down, lag := r.owner, r.limit, r.down, r.lag
	r.calls++
	r.mu.Unlock()
	if down {
		return Loan{}, errors.New("no owner")
	}
	loan := owner.Lend(ctx, "queue", b.shard, ask, limit)
	if loan.Permits > 0 && lag > 0 {
		select {
		case <-time.After(lag):
		case <-ctx.Done():
		}
	}
	return loan, ctx.Err()
}

func newRun(ctx context.Context, n int, limit Limit, took time.Duration) *run {
	r := &run{owner: NewLender[string, uint32](OfQueues), limit: limit, took: took}
	for i := range n {
		b := &branch{run: r, shard: uint32(i)}
		b.Borrower = NewBorrower(ctx, 1, b)
		b.CountInFlight(limit.InFlight > 0)
		r.branches = append(r.branches, b)
	}
	return r
}

// Lent begins an attempt for each permit.
func (b *branch) Lent() {
	b.run.mu.Lock()
	defer b.run.mu.Unlock()
	if b.holds {
		return
	}
	for b.Take(time.Now()) {
		b.begun++
		b.run.inFlight++
		b.run.most = max(b.run.most, b.run.inFlight)
		time.AfterFunc(b.run.took, b.end)
	}
	b.report()
}

func (b *branch) count() int {
	b.run.mu.Lock()
	defer b.run.mu.Unlock()
	return b.begun
}

func (b *branch) end() {
	b.run.mu.Lock()
	defer b.run.mu.Unlock()
	b.run.inFlight--
	b.ended++
	b.report()
}

func (b *branch) report() { b.Report(time.Now(), b.begun-b.ended, b.wants, cmp.Or(b.priority, 3)) }

// want makes all branches ask for n permits each time, until the end of the test.
func (r *run) want(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.branches {
		b.wants = n
		b.report()
	}
}

func (r *run) begun() (all int, each []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.branches {
		all += b.begun
		each = append(each, b.begun)
	}
	return all, each
}

// sleep advances the time and waits until every goroutine is idle.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func simulate(t *testing.T, n int, limit Limit, took time.Duration, do func(t *testing.T, r *run)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		r := newRun(ctx, n, limit, took)
		do(t, r)
		end()
		sleep(10 * time.Second) // the last attempts end
	})
}

// TestOneForTwelve checks that a limit below the number of shards is kept, used fully and shared.
func TestOneForTwelve(t *testing.T) {
	simulate(t, 12, Limit{InFlight: 1}, 10*time.Millisecond, func(t *testing.T, r *run) {
		r.want(100)
		sleep(Life + 10*time.Second)
		all, each := r.begun()
		if r.most != 1 || all < 950 {
			t.Errorf("%d begun in ten seconds, %d at once", all, r.most)
		}
		for i, n := range each {
			if n < all/12-2 || n > all/12+2 {
				t.Errorf("shard %d began %d of %d", i, n, all)
			}
		}
	})
}

// TestSlowRate checks one attempt every two seconds, for each branch in turn, without constant calls.
func TestSlowRate(t *testing.T) {
	simulate(t, 5, Limit{PerSecond: 0.5}, time.Millisecond, func(t *testing.T, r *run) {
		r.want(3)
		sleep(Life + 100*time.Second)
		all, each := r.begun()
		if all < 50 || all > 51 {
			t.Errorf("%d begun in 100 s", all)
		}
		for i, n := range each {
			if n < 9 || n > 12 {
				t.Errorf("shard %d began %d of %d", i, n, all)
			}
		}
		if r.calls > 5*100*2 {
			t.Errorf("%d calls", r.calls)
		}
	})
}

// TestBothLimits checks that the tighter limit decides.
func TestBothLimits(t *testing.T) {
	for _, test := range []struct {
		limit Limit
		took  time.Duration
		want  int
	}{
		{Limit{InFlight: 10, PerSecond: 100}, 10 * time.Millisecond, 1000},
		{Limit{InFlight: 10, PerSecond: 100}, time.Second, 100},
	} {
		simulate(t, 3, test.limit, test.took, func(t *testing.T, r *run) {
			r.want(50)
			sleep(Life + 10*time.Second)
			all, _ := r.begun()
			if all < test.want*95/100 || all > test.want+11 || r.most > 10 {
				t.Errorf("%v each: %d begun, %d at once", test.took, all, r.most)
			}
		})
	}
}

// TestBetterPriorityBorrowsFirst checks that a borrower with tasks of a better priority gets all permits that it wants
// before the others.
func TestBetterPriorityBorrowsFirst(t *testing.T) {
	simulate(t, 4, Limit{InFlight: 2}, 10*time.Millisecond, func(t *testing.T, r *run) {
		r.branches[3].priority = 1
		r.want(100)
		sleep(Life + 10*time.Second)
		all, each := r.begun()
		if each[3] < all*9/10 || r.most > 2 {
			t.Errorf("%d of %d attempts are urgent; %d at once", each[3], all, r.most)
		}
		r.branches[3].wants = 0
		r.mu.Lock()
		r.branches[3].report()
		r.mu.Unlock()
		sleep(10 * time.Second)
		if later, _ := r.begun(); later < all*3/2 {
			t.Errorf("the others began %d attempts after %d", later, all)
		}
	})
}

// TestLostLoan checks that permits are free at once whose borrower no longer wanted them before they came.
func TestLostLoan(t *testing.T) {
	simulate(t, 2, Limit{InFlight: 1}, time.Millisecond, func(t *testing.T, r *run) {
		sleep(Life)
		report := func(i, wants int, lag time.Duration) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lag, r.branches[i].wants = lag, wants
			r.branches[i].report()
		}
		report(0, 1, 20*time.Millisecond)
		sleep(10 * time.Millisecond)
		report(0, 0, 0)
		report(1, 1, 0)
		sleep(10 * time.Millisecond)
		assert.Equal(t, r.branches[0].count(), 0, "begun without a wish")
		if n := r.branches[1].count(); n == 0 {
			t.Error("the permit is not lent again")
		}
		report(1, 0, 0)
	})
}

// TestLapse checks that a dead borrower's permits are free again after a Life, and not before.
func TestLapse(t *testing.T) {
	simulate(t, 2, Limit{InFlight: 2}, time.Hour, func(t *testing.T, r *run) {
		a, b := r.branches[0], r.branches[1]
		ctx, die := context.WithCancel(t.Context())
		a.Borrower, a.shard, a.wants = NewBorrower(ctx, 1, a), 7, 2
		a.Report(time.Now(), 0, 2, 3)
		sleep(2 * Life)
		assert.MustEqual(t, a.count(), 2, "begun")
		die()
		b.wants = 1
		b.Report(time.Now(), 0, 1, 3)
		sleep(Life / 3)
		assert.Equal(t, b.count(), 0, "lent twice")
		sleep(Life)
		if b.count() == 0 {
			t.Error("never lent again")
		}
	})
}

// TestNewOwner checks that a new owner learns the attempts under way before it lends.
func TestNewOwner(t *testing.T) {
	simulate(t, 4, Limit{InFlight: 4}, 5*time.Second, func(t *testing.T, r *run) {
		r.want(1)
		sleep(Life + 2*time.Second)
		r.mu.Lock()
		r.down = true
		r.mu.Unlock()
		sleep(Life / 2)
		r.mu.Lock()
		r.owner, r.down = NewLender[string, uint32](OfQueues), false
		r.mu.Unlock()
		sleep(10 * time.Second)
		if all, _ := r.begun(); all < 8 || r.most != 4 {
			t.Errorf("%d begun, %d at once", all, r.most)
		}
	})
}

// TestIdleSaysNothing checks that a borrower with no attempts and no wants makes no calls and has no goroutine.
func TestIdleSaysNothing(t *testing.T) {
	simulate(t, 3, Limit{InFlight: 3}, time.Millisecond, func(t *testing.T, r *run) {
		r.want(1)
		sleep(3 * Life)
		r.want(0)
		sleep(3 * Life)
		calls := r.calls
		sleep(time.Hour)
		if r.calls != calls {
			t.Errorf("%d calls in an idle hour", r.calls-calls)
		}
		for _, b := range r.branches {
			if b.running {
				t.Error("it still runs")
			}
		}
	})
}

// TestUnusedGoesBack checks that permits that a borrower can no longer use are free for others at once.
func TestUnusedGoesBack(t *testing.T) {
	simulate(t, 2, Limit{InFlight: 1}, time.Millisecond, func(t *testing.T, r *run) {
		sleep(Life)
		a, b := r.branches[0], r.branches[1]
		a.holds = true
		a.Report(time.Now(), 0, 1, 3)
		sleep(100 * time.Millisecond)
		assert.MustEqual(t, a.Free(time.Now()), 1, "free")
		b.wants = 1
		b.Report(time.Now(), 0, 1, 3)
		sleep(100 * time.Millisecond)
		assert.MustEqual(t, b.count(), 0, "lent twice")
		a.Report(time.Now(), 0, 0, 3)
		sleep(time.Millisecond)
		if b.count() == 0 {
			t.Error("it was not given back")
		}
	})
}
