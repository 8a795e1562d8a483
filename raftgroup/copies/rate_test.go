package copies

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// passages holds the instants at which bytes passed a Meter, in their order.
type passages struct {
	mu  sync.Mutex // guards all
	all []passage
}

type passage struct {
	at    time.Time
	bytes int
}

func (p *passages) add(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, passage{time.Now(), bytes})
}

// excess returns the most bytes that passed within any time beyond those that the rate allows for that time.
func (p *passages) excess(rate float64) (most float64) {
	least, sum := 0.0, 0.0 // least of the bytes up to a passage beyond those allowed up to it
	for _, q := range p.all {
		allowed := rate * q.at.Sub(p.all[0].at).Seconds()
		least = min(least, sum-allowed)
		sum += float64(q.bytes)
		most = max(most, sum-allowed-least)
	}
	return most
}

// TestAnyTimeKeepsToTheLimit checks that within any time the copies are at most a piece more than the rate allows for
// that time, however many share the limit, pause, and give up.
func TestAnyTimeKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			rate := MinRate << rng.IntN(3)
			m, passed := NewMeter(int64(rate)), &passages{}
			var all sync.WaitGroup
			for i := range 1 + rng.IntN(4) {
				all.Go(func() { copyUnevenly(t, m, passed, rand.New(rand.NewPCG(seed, uint64(1+i)))) })
			}
			for i := range rng.IntN(4) {
				all.Go(func() { paceUnevenly(t, m, passed, rand.New(rand.NewPCG(seed, uint64(101+i)))) })
			}
			all.Wait()
			const rounding = 1 // the limiter counts in fractions of bytes
			if over := passed.excess(float64(rate)); over > float64(m.piece+rounding) {
				t.Errorf("seed %d: %.0f bytes beyond %d bytes a second, and a piece has %d", seed, over, rate, m.piece)
			}
			if sum := m.Sent(true) + m.Paced(); len(passed.all) == 0 || sum < uint64(rate) {
				t.Errorf("seed %d: only %d bytes passed", seed, sum)
			}
		})
	}
}

// copyUnevenly sends copies one after the other, with pauses before and in them.
func copyUnevenly(t *testing.T, m *Meter, passed *passages, rng *rand.Rand) {
	for range 3 {
		wait(rng, time.Second)
		size := int64(rng.IntN(128<<10) + 64<<10)
		c := m.Of(1).Begin(t.Context(), "b", size, true, never)
		content := c.Reader(bytes.NewReader(make([]byte, size)))
		for b := make([]byte, rng.IntN(maxPiece)+1<<10); ; {
			n, err := content.Read(b)
			passed.add(n)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Error(err)
			}
			if rng.IntN(10) == 0 {
				wait(rng, time.Second/4)
			}
		}
		c.End()
	}
}

// paceUnevenly lets pieces pass whose callers give up if their turn does not come within some time.
func paceUnevenly(t *testing.T, m *Meter, passed *passages, rng *rand.Rand) {
	for range 100 {
		n := rng.IntN(m.piece) + 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(time.Second/2))))
		if _, err := m.Pace(ctx, n); err == nil {
			passed.add(n)
		}
		cancel()
	}
}

func wait(rng *rand.Rand, most time.Duration) { <-time.After(time.Duration(rng.Int64N(int64(most)))) }
