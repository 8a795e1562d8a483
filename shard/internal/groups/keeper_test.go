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

	mu     sync.Mutex
	draw   *rand.Rand
	owners []*owner // the last one is the present owner; the others do not know that their time is over
	shards []*branch
	begun  int
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
}

func newWorld(t *testing.T, seed uint64, limit Limit, shards int) *world {
	w := &world{t: t, limit: limit, draw: rand.New(rand.NewPCG(seed, 7))}
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
	d, lost := time.Duration(w.draw.IntN(3000))*time.Microsecond, w.draw.IntN(20) == 0
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
	w.begun++
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
	if under > w.limit.InFlight {
		w.t.Errorf("group %s: %d under way, and the limit is %d", group, under, w.limit.InFlight)
	}
	took, fails := time.Duration(w.draw.IntN(20))*time.Millisecond, w.draw.IntN(4) == 0
	time.AfterFunc(took, func() { b.end(ctx, group, due, fails) })
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
	b.ended = nil
	for _, group := range b.groups() {
		if n := len(b.waiting[group]); n > 0 {
			ask.Wants = append(ask.Wants, Want{group, n})
		}
	}
	if len(ask.Wants)+len(ask.Ended) == 0 {
		return
	}
	b.asks++
	ask.Number, b.asking = b.asks, b.asks
	to := w.owners[max(len(w.owners)-1-w.draw.IntN(2), 0)] // perhaps one whose time is over
	ctx, cancel := context.WithCancel(ctx)
	if w.draw.IntN(10) == 0 {
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
	b.asks, b.asking, b.ended, b.permits = 0, 0, nil, map[string]Given{}
}

// TestLimitsHoldOverAllShards lets shards with tasks of a few groups ask owners that change, over a network that loses
// messages, while leaders of shards change too. No group has more attempts under way than it may, groups keep their
// order, and all tasks are done in the end.
func TestLimitsHoldOverAllShards(t *testing.T) {
	for _, limit := range []Limit{{InFlight: 1, InOrder: true}, {InFlight: 1}, {InFlight: 3}} {
		for seed := range uint64(30) {
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
	tasks := 0
	for i := range int64(100) {
		b, group := w.shards[w.draw.IntN(len(w.shards))], fmt.Sprint("g", w.draw.IntN(4))
		b.waiting[group] = append(b.waiting[group], 1000+i)
		tasks++
	}
	for done := 0; done < tasks; {
		w.mu.Lock()
		for _, b := range w.shards {
			b.step(ctx)
		}
		switch w.draw.IntN(8) {
		case 0:
			w.elect(ctx)
		case 1:
			w.shards[w.draw.IntN(len(w.shards))].depose()
		}
		done = w.done
		endless := w.begun > 100*tasks
		w.mu.Unlock()
		if endless {
			t.Fatal("it does not end")
		}
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	time.Sleep(2 * time.Second)
}
