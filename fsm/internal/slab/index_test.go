package slab

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// entry is a handle's slot and hash in the model of an Index.
type entry struct {
	slot uint32
	hash uint64
}

// indexModel drives an Index beside a map from handle to entry.
type indexModel struct {
	x    *Index
	want map[uint32]entry
	next uint32
}

// entries draws few slots, and hashes that often collide, either wholly or in the cell where probing begins.
func entries() *rapid.Generator[entry] {
	fragments := rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, 3), rapid.Uint32Range(1<<32-4, 1<<32-1))
	return rapid.Custom(func(t *rapid.T) entry {
		return entry{
			slot: rapid.SampledFrom([]uint32{0, 1, 2, slots - 1}).Draw(t, "slot"),
			hash: uint64(fragments.Draw(t, "fragment"))<<32 | uint64(rapid.Uint32().Draw(t, "low")),
		}
	})
}

func (m *indexModel) insert(t *rapid.T) {
	for _, e := range rapid.SliceOfN(entries(), 1, 60).Draw(t, "entries") {
		m.next++
		m.x.Insert(e.slot, e.hash, m.next)
		m.want[m.next] = e
	}
}

func (m *indexModel) remove(t *rapid.T) {
	handles := slices.Sorted(maps.Keys(m.want))
	for range min(len(handles), rapid.IntRange(1, 60).Draw(t, "count")) {
		i := rapid.IntRange(0, len(handles)-1).Draw(t, "which")
		h := handles[i]
		m.x.Delete(m.want[h].slot, m.want[h].hash, h)
		delete(m.want, h)
		handles = slices.Delete(handles, i, i+1)
	}
}

func (m *indexModel) check(t *rapid.T) {
	bySlot := map[uint32][]uint32{}
	for h, e := range m.want {
		bySlot[e.slot] = append(bySlot[e.slot], h)
		if !slices.Contains(candidates(m.x, e), h) {
			t.Fatalf("handle %d of %v is not found", h, e)
		}
	}
	for _, slot := range []uint32{0, 1, 2, 3, slots - 1} {
		got := slices.Sorted(m.x.Each(slot))
		slices.Sort(bySlot[slot])
		if !slices.Equal(got, bySlot[slot]) || m.x.SlotLen(slot) != len(got) {
			t.Fatalf("slot %d has %v, SlotLen %d, want %v", slot, got, m.x.SlotLen(slot), bySlot[slot])
		}
	}
	assert.MustEqual(t, handleCount(m.x), len(m.want), "handles")
	checkTables(t, m.x)
}

// handleCount returns the number of handles of all slots.
func handleCount(x *Index) (n int) {
	for slot := range uint32(slots) {
		n += x.SlotLen(slot)
	}
	return n
}

// checkTables checks the invariants that keep tables small and let searches end.
func checkTables(t rapid.TB, x *Index) {
	t.Helper()
	cells := 0
	for slot, tab := range x.tables {
		if tab == nil {
			continue
		}
		cells += len(tab.cells)
		if tab.live > 0 && tab.live*6 > len(tab.cells)*5 {
			t.Fatalf("slot %d has %d handles in %d cells", slot, tab.live, len(tab.cells))
		}
		if tab.live*4 < len(tab.cells) && len(tab.cells) > 40 {
			t.Fatalf("slot %d keeps %d cells for %d handles", slot, len(tab.cells), tab.live)
		}
	}
	if cells != x.cells {
		t.Fatalf("%d cells, counted as %d", cells, x.cells)
	}
}

func candidates(x *Index, e entry) (handles []uint32) {
	p := x.Probe(e.slot, e.hash)
	for h := p.Next(); h != 0; h = p.Next() {
		handles = append(handles, h)
	}
	return handles
}

func TestIndexModel(t *testing.T) { rapid.Check(t, playIndex) }

func FuzzIndex(f *testing.F) {
	addRandom(f)
	f.Fuzz(rapid.MakeFuzz(playIndex))
}

// playIndex plays one history against the model.
func playIndex(t *rapid.T) {
	m := &indexModel{x: NewIndex(), want: map[uint32]entry{}}
	t.Repeat(map[string]func(*rapid.T){"insert": m.insert, "remove": m.remove, "": m.check})
}

func TestProbeYieldsOnlyWhatMatches(t *testing.T) {
	x := NewIndex()
	x.Insert(7, 1<<32, 1)
	x.Insert(7, 2<<32, 2)
	x.Insert(7, 1<<32|99, 3)
	x.Insert(8, 1<<32, 4)
	if got := candidates(x, entry{7, 1 << 32}); !slices.Equal(got, []uint32{1, 3}) {
		t.Errorf("candidates are %v, want [1 3]", got)
	}
	p := x.Probe(9, 1<<32)
	for range 2 {
		assert.Equal(t, p.Next(), 0, "an unused slot yields a handle")
	}
}

func TestIndexSizeAndReturn(t *testing.T) {
	const perSlot, used = 2500, 341
	x := NewIndex()
	each := func(f func(slot uint32, hash uint64, h uint32)) {
		for h := uint32(1); h <= perSlot*used; h++ {
			f(h%used*12, mix(uint64(h)), h)
		}
	}
	each(x.Insert)
	checkTables(t, x)
	if got := float64(x.Bytes()) / float64(handleCount(x)); got > 13 {
		t.Errorf("%.2f bytes a handle", got)
	}
	each(x.Delete)
	if got := x.Bytes(); handleCount(x) != 0 || got > 64<<10 {
		t.Errorf("an emptied index of %d handles holds %d bytes", handleCount(x), got)
	}
}

// TestTablesGrowApart checks that tables do not all grow at once. Slots fill alike, so all tables would otherwise be
// half empty a moment later.
func TestTablesGrowApart(t *testing.T) {
	for _, stride := range []uint32{1, 12} {
		x, sizes := NewIndex(), map[int]int{}
		for slot := range uint32(300) {
			for h := uint32(1); h <= 10_000; h++ {
				x.Insert(slot*stride, mix(uint64(h)), h)
			}
			sizes[len(x.tables[slot*stride].cells)]++
		}
		for size, n := range sizes {
			if n > 100 {
				t.Errorf("%d of 300 tables, every %d. slot, have %d cells", n, stride, size)
			}
		}
	}
}

func TestIndexBrokenInvariants(t *testing.T) {
	x := NewIndex()
	mustPanic(t, "handle 0", func() { x.Insert(1, 1, 0) })
	mustPanic(t, "unused slot", func() { x.Delete(1, 1, 1) })
	x.Insert(1, 1<<40, 1)
	mustPanic(t, "other handle", func() { x.Delete(1, 1<<40, 2) })
	mustPanic(t, "other hash", func() { x.Delete(1, 1<<41, 1) })
	mustPanic(t, "slot out of range", func() { x.Insert(slots, 1, 1) })
}

func TestProbeDoesNotAllocate(t *testing.T) {
	x := NewIndex()
	x.Insert(1, 1<<40, 5)
	if got := testing.AllocsPerRun(100, func() {
		p := x.Probe(1, 1<<40)
		if p.Next() != 5 || p.Next() != 0 {
			t.Error("not found")
		}
	}); got != 0 {
		t.Errorf("%v allocations a probe", got)
	}
}

// mix spreads consecutive numbers over all 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
