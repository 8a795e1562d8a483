package lend

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// site is a shard's leader in the model: its true attempts and permits, and its waiting call.
type site struct {
	shard            uint32
	term, round      uint64
	inFlight, unused int
	parked           <-chan int
	until            time.Time // end of its permits' validity
}

func (s *site) ask(p *pool[uint32], now time.Time, want int) {
	s.hear(now)
	s.round++
	s.until = now.Add(Life)
	s.parked = p.ask(now, s.shard, Borrow{
		Term: s.term, Round: s.round, InFlight: s.inFlight, Unused: s.unused, Want: want, Wait: true,
	})
}

func (s *site) hear(now time.Time) {
	select {
	case n := <-s.parked:
		s.unused += n
		s.parked = nil
	default:
	}
	if !now.Before(s.until) {
		s.unused = 0
	}
}

// TestLimitsHold checks that all borrowers together stay within max_in_flight, and the loans within max_per_second,
// whatever the borrowers do, as long as each reports within a Life.
func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{
			InFlight:  rapid.IntRange(0, 5).Draw(t, "in flight"),
			PerSecond: rapid.SampledFrom([]float64{0, 0.5, 10, 1000}).Draw(t, "per second"),
		}
		now := begin
		p := newPool[uint32](begin.Add(-Life), OfQueues)
		p.setLimit(now, limit)
		sites := make([]*site, rapid.IntRange(1, 12).Draw(t, "sites"))
		for i := range sites {
			sites[i] = &site{shard: uint32(i)}
		}
		begun := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "ms")) * time.Millisecond)
			s := rapid.SampledFrom(sites).Draw(t, "site")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s.ask(p, now, rapid.IntRange(0, 4).Draw(t, "want"))
			case 1:
				if s.hear(now); s.unused > 0 {
					s.unused--
					s.inFlight++
					begun++
				}
			case 2:
				s.inFlight = max(s.inFlight-1, 0)
			case 3: // its call ends, perhaps with a lost answer, or its shard has another leader
				if s.parked != nil {
					p.takeBack(s.shard, Borrow{Term: s.term, Round: s.round}, s.parked, 0)
					s.parked = nil
				} else {
					s.term, s.round, s.unused = s.term+1, 0, 0
				}
			}
			for _, other := range sites { // no site is silent for a Life
				if other.until.Sub(now) < 100*time.Millisecond {
					other.ask(p, now, 0)
				}
			}
			p.serve(now)
			sum := 0
			for _, s := range sites {
				s.hear(now)
				sum += s.inFlight + s.unused
			}
			if limit.InFlight > 0 && sum > limit.InFlight {
				t.Fatalf("%d held of %d", sum, limit.InFlight)
			}
			most := now.Sub(begin).Seconds()*limit.PerSecond + max(limit.PerSecond/10, 1) + rounding
			if limit.PerSecond > 0 && float64(begun) > most {
				t.Fatalf("%d begun in %v at %v a second", begun, now.Sub(begin), limit.PerSecond)
			}
		}
	})
}

// TestInLine checks that permits go to the first to ask, in shares, and that a site that gave up for a moment keeps its
// place.
func TestInLine(t *testing.T) {
	p := newPool[uint32](begin.Add(-Life), OfQueues)
	p.setLimit(begin, Limit{InFlight: 4})
	sites := []*site{{shard: 1}, {shard: 2}, {shard: 3}}
	for _, s := range sites {
		s.ask(p, begin, 3)
	}
	p.serve(begin)
	expect := func(want ...int) {
		t.Helper()
		for i, s := range sites {
			if s.hear(begin); s.unused != want[i] {
				t.Errorf("site %d holds %d, want %d", i+1, s.unused, want[i])
			}
		}
	}
	expect(2, 1, 1)
	sites[2].unused = 0
	sites[2].ask(p, begin, 0)
	sites[0].ask(p, begin, 1)
	sites[1].ask(p, begin, 1)
	p.takeBack(1, Borrow{Round: sites[0].round}, sites[0].parked, 0)
	sites[0].ask(p, begin, 1) // again, and still the first in line
	p.serve(begin)
	expect(3, 1, 0)
}

// TestOldWords checks that an older report that arrives later does not count.
func TestOldWords(t *testing.T) {
	p := newPool[uint32](begin.Add(-Life), OfQueues)
	p.setLimit(begin, Limit{InFlight: 2})
	said := func(term, round uint64, inFlight int) bool {
		return p.ask(begin, 1, Borrow{Term: term, Round: round, InFlight: inFlight}) != nil
	}
	if !said(3, 7, 2) || said(3, 6, 0) || said(3, 7, 0) || said(2, 9, 0) {
		t.Error("old words were taken, or new ones not")
	}
	if p.lent() != 2 {
		t.Errorf("%d lent", p.lent())
	}
	if !said(4, 1, 0) || p.lent() != 0 {
		t.Error("a new leader was not heard")
	}
}

// TestTakenBackOnce checks that permits whose call ended before a newer report are not taken off that report.
func TestTakenBackOnce(t *testing.T) {
	p := newPool[uint32](begin.Add(-Life), OfQueues)
	p.setLimit(begin, Limit{InFlight: 3})
	first := Borrow{Round: 1, Want: 2}
	parked := p.ask(begin, 1, first)
	p.serve(begin) // lends two
	p.ask(begin, 1, Borrow{Round: 2, Want: 3})
	p.serve(begin) // lends three, since the report counts none
	if p.takeBack(1, first, parked, 0); p.lent() != 3 {
		t.Errorf("%d lent, want 3", p.lent())
	}
}

// TestForgotten checks that the owner keeps a queue while its bucket fills. Otherwise a forgotten queue would bypass a
// slow rate.
func TestForgotten(t *testing.T) {
	p := newPool[uint32](begin.Add(-Life), OfQueues)
	p.setLimit(begin, Limit{PerSecond: 1.0 / 60})
	s := &site{shard: 1}
	s.ask(p, begin, 1)
	p.serve(begin)
	s.hear(begin)
	if later := begin.Add(30 * time.Second); s.unused != 1 || p.isIdle(later) {
		t.Errorf("%d lent, idle %v", s.unused, p.isIdle(later))
	}
	if !p.isIdle(begin.Add(time.Minute)) {
		t.Error("it is never forgotten")
	}
}
