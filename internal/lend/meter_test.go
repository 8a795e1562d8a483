package lend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

var errLost = errors.New("no answer")

// rates is a cluster in memory whose nodes share one rate. Its times are those of the synctest bubble.
type rates struct {
	nodes []*Meter
	draws int

	mu    sync.Mutex
	owner *Lender[string, int] // nil: the owner is lost
	far   time.Duration        // added to each round trip
	cut   int                  // the node that does not reach the owner; -1: none
}

const trip = 250 * time.Millisecond

func newRates(n int) *rates { return newFarRates(n, 0, trip) }

// newFarRates returns nodes with a longer round trip to the owner.
func newFarRates(n int, far, trip time.Duration) *rates {
	c := &rates{owner: newRateOwner(), far: far, cut: -1}
	for i := range n {
		c.nodes = append(c.nodes, NewMeter(nodeRate{c, i, n}, trip))
	}
	return c
}

// nodeRate is the rate as a node borrows of it.
type nodeRate struct {
	cluster     *rates
	node, nodes int
}

func (r nodeRate) Borrowers() int { return r.nodes }

func newRateOwner() *Lender[string, int] { return NewLender[string, int](OfRates) }

// pass lets time pass in the bubble.
func pass(d time.Duration) { <-time.After(d) }

// Draw takes a millisecond or so. Without an owner it hangs.
func (r nodeRate) Draw(ctx context.Context, ask Borrow, perSecond float64) (Loan, error) {
	c := r.cluster
	pass(c.far + time.Duration(200+rand.IntN(1500))*time.Microsecond)
	if ctx.Err() != nil {
		return Loan{}, errLost
	}
	c.mu.Lock()
	owner := c.owner
	if r.node == c.cut {
		owner = nil
	}
	c.draws++
	c.mu.Unlock()
	if owner == nil {
		<-ctx.Done()
		return Loan{}, errLost
	}
	return owner.Lend(ctx, "rate", r.node, ask, Limit{PerSecond: perSecond}), nil
}

func (c *rates) setOwner(a *Lender[string, int]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner = a
}

// load is a stream of calls. demand returns the calls a second at a node, at a time since the beginning.
type load struct {
	limit  func(at time.Duration) float64
	demand func(node int, at time.Duration) float64
	length time.Duration
}

// tally counts calls in steps of a tenth of a second.
type tally struct {
	mu                sync.Mutex
	begin             time.Time
	admitted, refused []int
}

func (t *tally) add(admitted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	step := int(time.Since(t.begin) / (100 * time.Millisecond))
	for len(t.admitted) <= step {
		t.admitted, t.refused = append(t.admitted, 0), append(t.refused, 0)
	}
	if admitted {
		t.admitted[step]++
	} else {
		t.refused[step]++
	}
}

// sum returns the calls of [from, to).
func (t *tally) sum(from, to time.Duration) (admitted, refused int) {
	for i := range t.admitted {
		if at := time.Duration(i) * 100 * time.Millisecond; at >= from && at < to {
			admitted, refused = admitted+t.admitted[i], refused+t.refused[i]
		}
	}
	return admitted, refused
}

// run makes the calls of a load, each in a goroutine.
func (c *rates) run(t *testing.T, l load) *tally {
	count := &tally{begin: time.Now()}
	var calls sync.WaitGroup
	for i, node := range c.nodes {
		calls.Go(func() {
			for {
				at := time.Since(count.begin)
				if at >= l.length {
					return
				}
				rate := l.demand(i, at)
				if rate == 0 {
					pass(10 * time.Millisecond)
					continue
				}
				pass(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
				calls.Go(func() {
					dry, err := node.Take(t.Context(), l.limit(time.Since(count.begin)))
					assert.Equal(t, err, nil)
					count.add(dry == 0)
				})
			}
		})
	}
	calls.Wait()
	pass(time.Second) // the last draws end
	return count
}

// within fails unless got differs from want by at most 5 %.
func within(t *testing.T, what string, got int, want float64) {
	t.Helper()
	if f := float64(got); f < 0.95*want || f > 1.05*want {
		t.Errorf("%s: %d, want %.0f", what, got, want)
	}
}

func always(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }

// skews are the ways in which a load is spread over the nodes; each returns a node's part.
var skews = map[string]func(node, nodes int, at time.Duration) float64{
	"even": func(_, nodes int, _ time.Duration) float64 { return 1 / float64(nodes) },
	"one": func(node, _ int, _ time.Duration) float64 {
		if node == 1 {
			return 1
		}
		return 0
	},
	"steep": func(node, _ int, _ time.Duration) float64 { return 1 / float64(int(2)<<node) },
	"turns": func(node, nodes int, at time.Duration) float64 {
		if int(at/(300*time.Millisecond))%nodes == node {
			return 1
		}
		return 0
	},
}

func eachSkew(t *testing.T, test func(t *testing.T, nodes int, part func(node int, at time.Duration) float64)) {
	for _, nodes := range []int{3, 5} {
		for name, skew := range skews {
			t.Run(fmt.Sprintf("%s/%d", name, nodes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					test(t, nodes, func(node int, at time.Duration) float64 { return skew(node, nodes, at) })
				})
			})
		}
	}
}

// TestRateIsExact checks that nodes with three times the calls of a limit pass the limit, however the calls are spread.
func TestRateIsExact(t *testing.T) {
	eachSkew(t, func(t *testing.T, nodes int, part func(int, time.Duration) float64) {
		for _, limit := range []float64{7, 400} {
			c := newRates(nodes)
			got := c.run(t, load{limit: always(limit), length: 22 * time.Second,
				demand: func(node int, at time.Duration) float64 { return 3.2 * limit * part(node, at) }})
			admitted, refused := got.sum(2*time.Second, 22*time.Second)
			within(t, fmt.Sprintf("admitted at %v a second", limit), admitted, 20*limit)
			if refused == 0 {
				t.Error("nothing was refused")
			}
		}
	})
}

// TestNothingRefusedBelow checks that no call is refused while the load stays below the limit, from the first call on.
func TestNothingRefusedBelow(t *testing.T) {
	eachSkew(t, func(t *testing.T, nodes int, part func(int, time.Duration) float64) {
		c := newRates(nodes)
		got := c.run(t, load{limit: always(500), length: 20 * time.Second,
			demand: func(node int, at time.Duration) float64 { return 430 * part(node, at) }})
		if admitted, refused := got.sum(0, time.Hour); refused > 0 || admitted < 7000 {
			t.Errorf("%d admitted, %d refused", admitted, refused)
		}
		synctest.Wait()
		if perSecond := c.draws / 20; perSecond > 100*nodes {
			t.Errorf("%d draws a second", perSecond)
		}
	})
}

// TestLimitChanges checks both rates when a limit is lowered and raised under load.
func TestLimitChanges(t *testing.T) {
	eachSkew(t, func(t *testing.T, nodes int, part func(int, time.Duration) float64) {
		limit := func(at time.Duration) float64 {
			if at >= 12*time.Second && at < 24*time.Second {
				return 100
			}
			return 400
		}
		c := newRates(nodes)
		got := c.run(t, load{limit: limit, length: 36 * time.Second,
			demand: func(node int, at time.Duration) float64 { return 1300 * part(node, at) }})
		for i, want := range []float64{400, 100, 400} {
			begin := time.Duration(i) * 12 * time.Second
			admitted, _ := got.sum(begin+2*time.Second, begin+12*time.Second)
			within(t, fmt.Sprintf("part %d", i+1), admitted, 10*want)
		}
	})
}

// TestFarRate checks a rate whose nodes are far from its owner, within the Trip.
func TestFarRate(t *testing.T) {
	eachSkew(t, func(t *testing.T, nodes int, part func(int, time.Duration) float64) {
		const limit = 400.0
		c := newFarRates(nodes, 400*time.Millisecond, 500*time.Millisecond)
		got := c.run(t, load{limit: always(limit), length: 22 * time.Second,
			demand: func(node int, at time.Duration) float64 { return 3.2 * limit * part(node, at) }})
		admitted, refused := got.sum(2*time.Second, 22*time.Second)
		within(t, "admitted", admitted, 20*limit)
		if refused == 0 {
			t.Error("nothing was refused")
		}
	})
}

// TestOwnerLost checks that a rate stays within 5 % over some seconds when its owner is lost, together with a node and
// its callers, who go to the other nodes.
func TestOwnerLost(t *testing.T) {
	eachSkew(t, func(t *testing.T, nodes int, part func(int, time.Duration) float64) {
		const lost, limit = 8 * time.Second, 400.0
		c := newRates(nodes)
		time.AfterFunc(lost, func() { c.setOwner(nil) })
		time.AfterFunc(lost+1200*time.Millisecond, func() { c.setOwner(newRateOwner()) })
		got := c.run(t, load{limit: always(limit), length: 22 * time.Second,
			demand: func(node int, at time.Duration) float64 {
				rate := 3 * limit * part(node, at)
				switch {
				case at < lost:
				case node == 0:
					rate = 0
				default:
					rate += 3 * limit * part(0, at) / float64(nodes-1)
				}
				return rate
			}})
		admitted, _ := got.sum(2*time.Second, 22*time.Second)
		within(t, "admitted", admitted, 20*limit)
	})
}

// TestCutOff checks that the calls that a node takes while it does not reach the owner count later.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 400.0
		c := newRates(3)
		cut := func(node int) func() {
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.cut = node
			}
		}
		time.AfterFunc(5*time.Second, cut(1))
		time.AfterFunc(7500*time.Millisecond, cut(-1))
		got := c.run(t, load{limit: always(limit), length: 22 * time.Second,
			demand: func(int, time.Duration) float64 { return limit }})
		if admitted, _ := got.sum(5*time.Second, 7*time.Second); admitted < 900 {
			t.Errorf("%d admitted without the owner", admitted) // 800 by the others
		}
		admitted, _ := got.sum(5*time.Second, 12*time.Second)
		within(t, "admitted", admitted, 7*limit)
	})
}

// TestBurst checks that after a pause a node takes one second's calls at once, and no more.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100.0
		c := newRates(3)
		for range 3 {
			pass(10 * time.Second)
			admitted := 0
			for range 5 * int(limit) {
				if dry, err := c.nodes[2].Take(t.Context(), limit); dry == 0 && err == nil {
					admitted++
				}
			}
			within(t, "admitted", admitted, limit)
		}
	})
}

// TestTokensExpire checks that a node without calls does not keep its tokens for later.
func TestTokensExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRates(1)
		m := c.nodes[0]
		m.drawn = make(chan struct{})
		m.hear(Borrow{}, 100, Loan{Permits: 10}, nil)
		if pass(Life / 2); !m.spend(time.Now(), 100, 4) {
			t.Error("no token was left")
		}
		if pass(Life); m.spend(time.Now(), 100, 1) {
			t.Error("an old token was used")
		}
	})
}

// TestBatchWaits checks that the lines of batches wait for their tokens, and that all batches together keep the rate.
func TestBatchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, lines = 200, 1000
		c := newRates(3)
		begin := time.Now()
		var batches sync.WaitGroup
		for _, node := range c.nodes {
			batches.Go(func() {
				assert.Equal(t, node.Wait(t.Context(), limit, lines), nil)
			})
		}
		batches.Wait()
		took := time.Since(begin)
		pass(time.Second)
		// The first second's tokens may be there at once.
		within(t, "milliseconds", int(took.Milliseconds()), 1000*(3*lines-0.5*limit)/limit)
	})
}
