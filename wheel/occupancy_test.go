package wheel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// dueBy counts the items that are due at or before an instant, with an even handle.
func (m *model) dueBy(to int64) (n int) {
	for _, it := range m.items {
		if it.due <= to && even(it.handle) {
			n++
		}
	}
	return n
}

func even(h Handle) bool { return h%2 == 0 }

// checkRows checks that rows and beside count every even node once, and that no row is empty.
func (p *pair) checkRows() {
	p.t.Helper()
	rows, beside := p.wheel.Occupancy(math.MaxInt, even, nil)
	sum := beside
	for i, r := range rows {
		if i > 0 && r.Level < rows[i-1].Level || r.Slot != 1<<shiftOf(r.Level) || r.First%(r.Slot*fanOut) != 0 {
			p.t.Fatalf("row %d: level %d, slots of %d ms from %d", i, r.Level, r.Slot, r.First)
		}
		if r.Nodes == [fanOut]int{} {
			p.t.Fatalf("row %d is empty", i)
		}
		for _, n := range r.Nodes {
			sum += n
		}
	}
	if want := p.model.dueBy(math.MaxInt64); sum != want || beside < 0 {
		p.t.Fatalf("%d nodes are counted, %d of them beside the slots, and there are %d", sum, beside, want)
	}
}

// Nodes that are never rescheduled are counted by their due times, in the slots that span them.
func TestOccupancy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(fatal{t, rt}, position().Draw(rt, "position"), rapid.Bool().Draw(rt, "tiny"))
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				p.advance(p.model.position+distance().Draw(rt, "far"), rapid.IntRange(1, 20).Draw(rt, "limit"))
			case 1:
				if len(p.model.items) > 0 {
					p.remove(p.model.items[rapid.IntRange(0, len(p.model.items)-1).Draw(rt, "which")].handle)
				}
			case 2:
				p.next()
			default:
				p.insert(p.model.position + distance().Draw(rt, "in"))
			}
			p.checkRows()
			to := p.model.position + distance().Draw(rt, "to")
			if got, want := p.wheel.DueBy(to, math.MaxInt, even), p.model.dueBy(to); got != want {
				rt.Fatalf("%d nodes are due by %d, want %d", got, to, want)
			}
		}
	})
}

// A slot with more nodes than may be looked at counts as estimated, and at most as many as it holds.
func TestOccupancyEstimatesFullSlots(t *testing.T) {
	p := newPair(t, 0, false)
	for i := range int64(20) {
		p.insert(4096*(2+i/10) + i%10)
	}
	p.insert(4096)
	for estimated, want := range map[int]int{3: 3, 99: 10} {
		var spans []int64
		rows, _ := p.wheel.Occupancy(12, even, func(first, last int64, counted int) int {
			spans = append(spans, first, last, int64(counted))
			return estimated
		})
		if len(rows) != 1 || rows[0].Nodes[2] != 5 || rows[0].Nodes[3] != want {
			t.Errorf("estimated as %d: %v", estimated, rows)
		}
		if counted := p.model.dueBy(4096*3 - 1); !slices.Equal(spans, []int64{4096 * 3, 4096*4 - 1, int64(counted)}) {
			t.Errorf("the spans %v are estimated", spans)
		}
	}
}

// A full slot across the instant counts in part: 640 nodes, ten in each 64 ms of a slot of 4096 ms. If only some nodes
// are looked at, the others match as often.
func TestDueByCountsAPart(t *testing.T) {
	p := newPair(t, 0, false)
	for i := range int64(640) {
		p.insert(4096 + i*64/10)
	}
	p.insert(4096 * 3)
	for _, tt := range []struct {
		to        int64
		most, due int
	}{{4095, 10, 0}, {4096 + 2047, 10, 320}, {8191, 10, 640}, {4096 + 2047, 640, 320}, {4096 * 3, 700, 641}} {
		if got := p.wheel.DueBy(tt.to, tt.most, func(Handle) bool { return true }); got != tt.due {
			t.Errorf("%d nodes are due by %d, looking at %d, want %d", got, tt.to, tt.most, tt.due)
		}
		if got := p.wheel.DueBy(tt.to, tt.most, even); got < tt.due/2-1 || got > tt.due/2+1 {
			t.Errorf("%d even nodes are due by %d, looking at %d, want half of %d", got, tt.to, tt.most, tt.due)
		}
	}
}
