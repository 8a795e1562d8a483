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

// passages records when bytes pass a meter.
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

// most returns the most bytes by which any window exceeds its length times the rate.
func (p *passages) excess(rate float64) (most float64, window time.Duration) {
	least, since, sum := 0.0, time.Time{}, 0.0 // least of the bytes before a passage without those that the rate allows
	for i, q := range p.all {
		allowed := rate * q.at.Sub(p.all[0].at).Seconds()
		if before := sum - allowed; i == 0 || before < least {
			least, since = before, q.at
		}
		sum += float64(q.bytes)
		if over := sum - allowed - least; over > most {
			most, window = over, q.at.Sub(since)
		}
	}
	return most, window
}

func TestWindows(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			rate := int64(MinRate << rng.IntN(5))
			m := NewMeter(rate)
			var p passages
			var all sync.WaitGroup
			for i := range 1 + rng.IntN(8) {
				rng := rand.New(rand.NewPCG(seed, uint64(i)+2))
				all.Go(func() {
					for range 3 {
						time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
						size := rng.Int64N(rate) + 1
						c := m.Of(1).Begin(t.Context(), "b", size, true, func() error { return nil })
						r := c.Reader(bytes.NewReader(make([]byte, size)))
						buf := make([]byte, 1+rng.IntN(maxPiece))
						for {
							n, err := r.Read(buf)
							p.add(n)
							if err == io.EOF {
								break
							}
							if rng.IntN(10) == 0 {
								time.Sleep(time.Duration(rng.Int64N(int64(time.Second / 4))))
							}
						}
						c.End()
					}
				})
			}
			for i := range rng.IntN(4) {
				rng := rand.New(rand.NewPCG(seed, uint64(i)+200))
				all.Go(func() {
					for range 30 {
						n := 1 + rng.IntN(int(rate/4))
						for left := n; left > 0; {
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(time.Second/4))))
							before := m.Paced()
							_ = before
							was := left
							left, _ = m.Pace(ctx, left)
							cancel()
							_ = was
						}
					}
				})
			}
			// Pace's pieces are seen by the counter
			done := make(chan struct{})
			go func() { all.Wait(); close(done) }()
			last := uint64(0)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-done:
				case <-tick.C:
				}
				if now := m.Paced(); now != last {
					p.add(int(now - last))
					last = now
				}
				select {
				case <-done:
					over, w := p.excess(float64(rate))
					t.Logf("seed %d rate %d piece %d: over %.0f = %.2f pieces in %v", seed, rate, m.piece, over, over/float64(m.piece), w)
					return
				default:
				}
			}
		})
	}
}
