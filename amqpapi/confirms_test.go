package amqpapi

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestConfirms checks the numbers of one history.
func TestConfirms(t *testing.T) {
	c := confirms{on: true}
	for _, kept := range []bool{false, false, true, false, true, false, false} {
		if kept {
			c.kept()
		} else {
			c.passed()
		}
	}
	steps := []struct {
		tag       uint64 // of the broker; 0: Belfry commits own
		own       uint64
		multiple  bool
		confirmed []confirm
	}{
		{tag: 1, confirmed: []confirm{{own: 1}}},
		{tag: 3, multiple: true, confirmed: []confirm{{own: 2}, {own: 4}}}, // 3 is not committed
		{own: 3, confirmed: []confirm{{own: 3}}},
		{tag: 5, multiple: true, confirmed: []confirm{{own: 6}, {own: 7}}}, // 5 is not committed
		{own: 5, confirmed: []confirm{{own: 5}}},
		{own: 5}, {tag: 5},
	}
	for i, s := range steps {
		if got := play(&c, s.tag, s.own, s.multiple); !slices.Equal(got, s.confirmed) {
			t.Errorf("step %d: %v, want %v", i, got, s.confirmed)
		}
	}
	if len(c.waiting) != 0 {
		t.Errorf("%v wait", c.waiting)
	}
	for range 3 {
		c.passed()
	}
	if got := c.translate(nil, 0, true); !slices.Equal(got, []confirm{{own: 10, multiple: true}}) {
		t.Errorf("all: %v", got)
	}
}

func play(c *confirms, tag, own uint64, multiple bool) []confirm {
	if tag > 0 {
		return c.translate(nil, tag, multiple)
	}
	if c.committed(own) {
		return []confirm{{own: own}}
	}
	return nil
}

// TestConfirmsAgree plays random histories. Each publish is confirmed once, in whatever order, and only by its own side.
func TestConfirmsAgree(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, open := confirms{on: true}, map[uint64]bool{} // whether an unconfirmed publish went to Belfry
		var sent, confirmed uint64                       // of the broker
		var byTag []uint64
		take := func(list []confirm, kept bool) {
			for _, one := range list {
				for own := range open {
					if own != one.own && (!one.multiple || own > one.own) {
						continue
					}
					if open[own] != kept {
						t.Fatalf("seed %d: %v confirms %d, which is of the other side", seed, one, own)
					}
					delete(open, own)
				}
			}
		}
		for range 200 {
			switch n := r.IntN(8); {
			case n < 2:
				c.passed()
				sent++
				byTag = append(byTag, c.own)
				open[c.own] = false
			case n < 4:
				open[c.kept()] = true
			case n < 6 && confirmed < sent:
				if multiple := n == 4; multiple {
					confirmed += 1 + r.Uint64N(sent-confirmed)
					take(c.translate(nil, confirmed, true), false)
				} else {
					confirmed++
					take(c.translate(nil, confirmed, false), false)
				}
				for _, own := range byTag[:confirmed] {
					if _, still := open[own]; still {
						t.Fatalf("seed %d: %d is not confirmed", seed, own)
					}
				}
			default:
				for own, kept := range open {
					if kept {
						if c.committed(own) {
							take([]confirm{{own: own}}, true)
						}
						break
					}
				}
			}
			if len(c.waiting) > 0 && c.waiting[0].done {
				t.Fatalf("seed %d: a confirmed publish is first", seed)
			}
		}
	}
}
