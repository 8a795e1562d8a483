package groups

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is a cluster of shards whose leaders begin attempts of groups, and the owners of their queue, one after another.
type world struct {
	t     *testing.T
	limit Limit
	loses bool // messages are lost, and owners and leaders change

	mu     sync.Mutex
	draw   *rand.Rand
	owners []*owner // the last one is the present owner; the others do not know that their time is over
	shards []*branch
	begun  map[string][]time.Time // by group
	done   int
}

type owner struct {
	Owner
	*Keeper
}

// branch is a shard: its state, which outlives leaders, and its leader's memory.
type branch struct {
	w       *world
	id      uint32
	waiting map[string][]int64 // due times of ready tasks, in order
	retries map[string]int     // tasks that wait for their next attempts
	firing  map[string]int

	term, asks uint64
	asking     uint64
	permits    map[string]Given
	seen       Owner
	ended      []string
	unused     []Want
	lost       uint64
}

func newWorld(t *testing.T, seed uint64, limit Limit, shards int) *world {
	w := &world{t: t, limit: limit, loses: true, draw: rand.New(rand.NewPCG(seed, 7)), begun: map[string][]time.Time{}}
	for i := range shards {
		w.shards = append(w.shards, &branch{
			w: w, id: uint32(i + 1), term: 1, waiting: map[string][]int64{}, retries: map[string]int{},
			firing: map[string]int{}, permits: map[string]Given{},
		})
	}
	return w
}

// elect makes a new owner. The earlier owners go on.
func (w *world) elect(ctx context.Context) {
	at := Owner{Epoch: uint64(1 + len(w.owners)/3), Term: uint64(len(w.owners))}
	w.owners = append(w.owners, &owner{at, NewKeeper(ctx, w.look)})
}

// travel takes a random time. It loses a message sometimes.
func (w *world) travel(ctx context.Context) error {
	w.mu.Lock()
	d, lost := time.Duration(w.draw.IntN(3000))*time.Microsecond, w.loses && w.draw.IntN(20) == 0
	w.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	if lost {
		return errors.New("lost")
	}
	return nil
}

func (w *world) look(ctx context.Context, l Look) ([]Standing, error) {
	standings, errs := make([]Standing, len(w.shards)), make([]error, len(w.shards))
	var all sync.WaitGroup
	for i, b := range w.shards {
		all.Go(func() {
			if errs[i] = w.travel(ctx); errs[i] == nil {
				standings[i], errs[i] = b.standing(l)
			}
			errs[i] = errors.Join(errs[i], w.travel(ctx))
		})
	}
	all.Wait()
	return standings, errors.Join(errs...)
}

func (b *branch) standing(l Look) (Standing, error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if l.Owner.Compare(b.seen) < 0 {
		return Standing{}, errors.New("an earlier owner")
	}
	b.seen = l.Owner
	s := Standing{Shard: b.id, Term: b.term, Done: b.asks, ClearMs: math.MaxInt64}
	if b.asking != 0 {
		s.Done--
	}
	for _, g := range l.Groups {
		c := Count{UnderWay: b.firing[g] + b.permits[g].Permits, Retrying: b.retries[g], Waiting: len(b.waiting[g]) > 0}
		if c.Waiting {
			c.FirstMs = b.waiting[g][0]
		}
		s.Groups = append(s.Groups, c)
	}
	return s, nil
}

// step begins what the leader may begin, and asks for more.
func (b *branch) step(ctx context.Context) {
	for _, group := range b.groups() {
		for p := b.permits[group]; p.Permits > 0; p = b.permits[group] {
			dues := b.waiting[group]
			if len(dues) == 0 || b.w.limit.InOrder && dues[0] > p.FirstMs {
				b.unused = append(b.unused, Want{group, p.Permits})
				delete(b.permits, group)
				break
			}
			p.Permits--
			b.permits[group] = p
			b.begin(ctx, group)
		}
	}
	if b.asking == 0 {
		b.ask(ctx)
	}
}

func (b *branch) groups() (names []string) {
	for name := range b.waiting {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (b *branch) begin(ctx context.Context, group string) {
	w := b.w
	due := b.waiting[group][0]
	b.waiting[group] = b.waiting[group][1:]
	b.firing[group]++
	w.begin(group)
	under := 0
	for _, other := range w.shards {
		under += other.firing[group]
		if dues := other.waiting[group]; w.limit.InOrder && len(dues) > 0 && dues[0] < due {
			w.t.Errorf("group %s: the task of %d begins before that of %d", group, due, dues[0])
		}
		if w.limit.InOrder && other.retries[group] > 0 {
			w.t.Errorf("group %s: a task begins beside one that is retried", group)
		}
	}
	if w.limit.InFlight > 0 && under > w.limit.InFlight {
		w.t.Errorf("group %s: %d under way, and the limit is %d", group, under, w.limit.InFlight)
	}
	took, fails := time.Duration(w.draw.IntN(20))*time.Millisecond, w.draw.IntN(4) == 0
	time.AfterFunc(took, func() { b.end(ctx, group, due, fails) })
}

// begin counts an attempt of a group that begins, and checks the rate: since each earlier one no more have begun than a
// bucket passes, whose permits travel for some milliseconds.
func (w *world) begin(group string) {
	now := time.Now()
	all := append(w.begun[group], now)
	w.begun[group] = all
	rate := w.limit.PerSecond
	for i, at := range all {
		const travels = 20 * time.Millisecond
		if most := max(rate*burst.Seconds(), 1) + rate*(now.Sub(at)+travels).Seconds(); rate > 0 && float64(len(all)-i) > most {
			w.t.Errorf("group %s: %d attempts begin within %v, and the rate is %g", group, len(all)-i, now.Sub(at), rate)
			return
		}
	}
}

// end ends an attempt. A task that failed waits for a moment and is the first of its group again.
func (b *branch) end(ctx context.Context, group string, due int64, fails bool) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.firing[group]--
	b.ended = append(b.ended, group)
	if !fails {
		b.w.done++
		b.step(ctx)
		return
	}
	b.retries[group]++
	time.AfterFunc(10*time.Millisecond, func() {
		b.w.mu.Lock()
		defer b.w.mu.Unlock()
		b.retries[group]--
		b.waiting[group] = slices.Insert(b.waiting[group], 0, due)
		b.step(ctx)
	})
}

func (b *branch) ask(ctx context.Context) {
	w := b.w
	ask := Ask{Namespace: "ns", Queue: "q", Shard: b.id, Term: b.term, Ended: b.ended, Wait: w.draw.IntN(2) == 0}
	ask.Unused, ask.Lost, b.ended, b.unused, b.lost = b.unused, b.lost, nil, nil, 0
	for _, group := range b.groups() {
		if n := len(b.waiting[group]); n > 0 {
			ask.Wants = append(ask.Wants, Want{group, n})
		}
	}
	if len(ask.Wants)+len(ask.Ended)+len(ask.Unused) == 0 && ask.Lost == 0 {
		return
	}
	b.asks++
	ask.Number, b.asking = b.asks, b.asks
	to := w.owners[max(len(w.owners)-1-w.draw.IntN(2), 0)] // perhaps one whose time is over
	ctx, cancel := context.WithCancel(ctx)
	if w.loses && w.draw.IntN(10) == 0 {
		time.AfterFunc(time.Duration(w.draw.IntN(10))*time.Millisecond, cancel)
	}
	go func() {
		defer cancel()
		answer, err := Answer{}, w.travel(ctx)
		if err == nil {
			answer, err = to.Ask(ctx, ask, to.Owner, w.limit)
		}
		b.hear(ctx, ask, answer, errors.Join(err, w.travel(ctx)))
	}()
}

func (b *branch) hear(ctx context.Context, ask Ask, answer Answer, err error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if b.term != ask.Term {
		return // of an earlier leader
	}
	b.asking = 0
	if err != nil {
		b.lost = ask.Number
	}
	if err == nil && answer.Owner.Compare(b.seen) >= 0 {
		for _, g := range answer.Given {
			g.Permits += b.permits[g.Group].Permits
			b.permits[g.Group] = g
		}
	}
	time.AfterFunc(time.Millisecond, func() {
		b.w.mu.Lock()
		defer b.w.mu.Unlock()
		b.step(context.WithoutCancel(ctx))
	})
}

// depose gives a shard another leader, which knows only the state.
func (b *branch) depose() {
	b.term++
	b.asks, b.asking, b.ended, b.unused, b.lost, b.permits = 0, 0, nil, nil, 0, map[string]Given{}
}

// TestLimitsHoldOverAllShards lets shards with tasks of a few groups ask owners that change, over a network that loses
// messages, while leaders of shards change too. No group has more attempts under way than it may or begins more than its
// rate allows, groups keep their order, and all tasks are done in the end.
func TestLimitsHoldOverAllShards(t *testing.T) {
	for _, limit := range []Limit{
		{InFlight: 1, InOrder: true}, {InFlight: 1}, {InFlight: 3},
		{PerSecond: 100}, {PerSecond: 20, InFlight: 3}, {PerSecond: 20, InFlight: 1, InOrder: true},
	} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("%+v/%d", limit, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { playShards(t, seed, limit) })
			})
		}
	}
}

func playShards(t *testing.T, seed uint64, limit Limit) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, seed, limit, 5)
	w.elect(ctx)
	w.play(ctx, 100, 4, func() {
		switch w.draw.IntN(8) {
		case 0:
			w.elect(ctx)
		case 1:
			w.shards[w.draw.IntN(len(w.shards))].depose()
		}
	})
	cancel()
	time.Sleep(2 * time.Second)
}

// play gives the shards tasks of some groups, and takes steps until all tasks are done.
func (w *world) play(ctx context.Context, tasks, groups int, beside func()) {
	for i := range tasks {
		b, group := w.shards[w.draw.IntN(len(w.shards))], fmt.Sprint("g", w.draw.IntN(groups))
		b.waiting[group] = append(b.waiting[group], int64(1000+i))
	}
	for done := 0; done < tasks; {
		w.mu.Lock()
		for _, b := range w.shards {
			b.step(ctx)
		}
		beside()
		done = w.done
		begun := 0
		for _, all := range w.begun {
			begun += len(all)
		}
		w.mu.Unlock()
		if begun > 100*tasks {
			w.t.Fatal("it does not end")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestRateIsExact lets shards with many tasks of a few groups ask one owner. The attempts of each group begin at its
// rate, to five percent.
func TestRateIsExact(t *testing.T) {
	for _, perSecond := range []float64{0.5, 80, 1000} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w := newWorld(t, 1, Limit{PerSecond: perSecond}, 5)
				w.loses = false
				w.elect(ctx)
				w.play(ctx, int(10*perSecond)+60, 3, func() {})
				for group, all := range w.begun {
					n, took := float64(len(all)-1), all[len(all)-1].Sub(all[0]).Seconds()
					if rate := n / took; rate < 0.95*perSecond || rate > 1.05*perSecond {
						t.Errorf("group %s: %g attempts a second began, not %g", group, rate, perSecond)
					}
				}
				cancel()
				time.Sleep(2 * time.Second)
			})
		})
	}
}
