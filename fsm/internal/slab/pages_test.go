package slab

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// record has the size of a task's hot record.
type record struct {
	id   uint64
	rest [7]uint64
}

func recordOf(id uint64) record { return record{id: id, rest: [7]uint64{6: ^id}} }

// pagesModel drives Pages beside a map. A frozen view must show a copy of that map.
type pagesModel struct {
	s       *Pages[record]
	want    map[uint32]record
	handles []uint32
	next    uint64
	frozen  *Frozen[record]
	then    map[uint32]record
}

func (m *pagesModel) alloc(t *rapid.T) {
	// Allocate many records at a time, because a test that stays in the first page shows little.
	for range rapid.IntRange(1, 300).Draw(t, "records") {
		h := m.s.Alloc()
		if _, taken := m.want[h]; taken || h == 0 {
			t.Fatalf("handle %d is given twice, or zero", h)
		}
		assert.MustEqual(t, *m.s.Read(h), record{}, "record %d is not zero when given", h)
		m.next++
		m.set(h)
		m.handles = append(m.handles, h)
	}
}

func (m *pagesModel) set(h uint32) {
	m.want[h] = recordOf(m.next)
	*m.s.Write(h) = m.want[h]
}

func (m *pagesModel) write(t *rapid.T) {
	if len(m.handles) == 0 {
		return // nothing to write
	}
	m.next++
	m.set(rapid.SampledFrom(m.handles).Draw(t, "handle"))
}

func (m *pagesModel) free(t *rapid.T) {
	for range min(len(m.handles), rapid.IntRange(1, 200).Draw(t, "records")) {
		i := rapid.IntRange(0, len(m.handles)-1).Draw(t, "which")
		h := m.handles[i]
		m.s.Free(h)
		delete(m.want, h)
		m.handles[i] = m.handles[len(m.handles)-1]
		m.handles = m.handles[:len(m.handles)-1]
	}
}

func (m *pagesModel) freeze(t *rapid.T) {
	if m.frozen != nil {
		return // frozen already
	}
	m.frozen = m.s.Freeze()
	m.then = make(map[uint32]record, len(m.want))
	for h, r := range m.want {
		m.then[h] = r
	}
}

func (m *pagesModel) release(t *rapid.T) {
	if m.frozen == nil {
		return // not frozen
	}
	m.frozen.Release()
	m.frozen.Release()
	m.frozen = nil
}

func (m *pagesModel) check(t *rapid.T) {
	assert.MustEqual(t, m.s.Len(), len(m.want), "Len")
	for h, r := range m.want {
		assert.MustEqual(t, *m.s.Read(h), r, "record %d", h)
	}
	if m.frozen != nil {
		checkFrozen(t, m.frozen, m.then)
	}
}

func checkFrozen(t rapid.TB, f *Frozen[record], want map[uint32]record) {
	t.Helper()
	live := 0
	var page []record
	for i := range f.Pages() {
		page = f.Page(i, page)
		for j, r := range page {
			h := uint32(i*PageRecords + j)
			if r != want[h] || f.At(h) != r {
				t.Fatalf("frozen record %d is %v, by At %v, want %v", h, r, f.At(h), want[h])
			}
			if r != (record{}) {
				live++
			}
		}
	}
	if live != len(want) {
		t.Fatalf("the view shows %d records, want %d", live, len(want))
	}
}

func TestPagesModel(t *testing.T) { rapid.Check(t, playPages) }

func FuzzPages(f *testing.F) {
	addRandom(f)
	f.Fuzz(rapid.MakeFuzz(playPages))
}

// playPages plays one history against the model.
func playPages(t *rapid.T) {
	m := &pagesModel{s: NewPages[record](), want: map[uint32]record{}}
	t.Repeat(map[string]func(*rapid.T){
		"alloc": m.alloc, "write": m.write, "free": m.free, "freeze": m.freeze, "release": m.release,
		"": m.check,
	})
}

// TestPagesBeyondTheSmallChunks covers a layout that random runs are too short to reach.
func TestPagesBeyondTheSmallChunks(t *testing.T) {
	s, want := NewPages[record](), map[uint32]record{}
	for id := uint64(1); id <= 3*chunkRecords; id++ {
		h := s.Alloc()
		*s.Write(h) = recordOf(id)
		want[h] = recordOf(id)
	}
	f := s.Freeze()
	for h := range want {
		switch h % 3 {
		case 0:
			s.Free(h)
		case 1:
			s.Write(h).id = 0
		}
	}
	for range 5 * chunkRecords {
		s.Write(s.Alloc()).id = 1
	}
	checkFrozen(t, f, want)
	f.Release()
}

func TestPagesReuseWhatIsFree(t *testing.T) {
	s := NewPages[record]()
	var handles []uint32
	for range 10_000 {
		handles = append(handles, s.Alloc())
	}
	held := s.Bytes()
	for _, h := range handles {
		s.Free(h)
	}
	for range handles {
		s.Alloc()
	}
	if s.Bytes() != held {
		t.Errorf("grew from %d to %d bytes, though there was room", held, s.Bytes())
	}
}

func TestPagesStartSmall(t *testing.T) {
	s := NewPages[record]()
	assert.Equal(t, s.Bytes(), 0, "an empty slab holds N bytes")
	s.Alloc()
	if got := s.Bytes(); got > 5<<10 {
		t.Errorf("a slab of one record holds %d bytes", got)
	}
}

func TestLocateIsDense(t *testing.T) {
	chunk, i := uint32(0), uint32(0)
	for page := range uint32(300) {
		if int(i) == pagesIn(int(chunk)+1)-pagesIn(int(chunk)) {
			chunk, i = chunk+1, 0
		}
		if c, at := locate(page); c != chunk || at != i {
			t.Fatalf("page %d is at (%d, %d), want (%d, %d)", page, c, at, chunk, i)
		}
		i++
	}
}

func TestPointersAreRefused(t *testing.T) {
	mustPanic(t, "pointer", func() { NewPages[*int]() })
	mustPanic(t, "string", func() { NewPages[string]() })
	mustPanic(t, "slice in an array in a struct", func() { NewPages[struct{ a [2][]byte }]() })
	mustPanic(t, "pointer in a nested struct", func() { NewPages[struct{ in struct{ p *int } }]() })
	mustPanic(t, "interface", func() { NewPages[any]() })
	mustPanic(t, "nothing", func() { NewPages[struct{}]() })
	NewPages[struct {
		a [3]struct{ b bool }
		f float64
		u uintptr
	}]()
}

func TestPagesBrokenInvariants(t *testing.T) {
	s := NewPages[record]()
	h := s.Alloc()
	s.Free(h)
	mustPanic(t, "freed twice", func() { s.Free(h) })
	mustPanic(t, "handle 0", func() { s.Free(0) })

	f := s.Freeze()
	mustPanic(t, "frozen twice", func() { s.Freeze() })
	mustPanic(t, "page out of range", func() { f.Page(f.Pages(), nil) })
	f.Release()
	mustPanic(t, "page read after release", func() { f.Page(0, nil) })
	mustPanic(t, "record read after release", func() { f.At(h) })
	s.Freeze().Release()
}

// TestReleaseDropsImages checks that Release drops the images by itself, because the owner may be idle from then on.
func TestReleaseDropsImages(t *testing.T) {
	s := NewPages[record]()
	h := s.Alloc()
	f := s.Freeze()
	s.Write(h).id = 1
	if f.kept[0].images == nil {
		t.Fatal("no image was kept")
	}
	f.Release()
	if f.kept[0].images != nil {
		t.Error("images outlive the release")
	}
}

// TestOneImageAPage checks that only the first write to a page under a view costs a copy.
func TestOneImageAPage(t *testing.T) {
	s := NewPages[record]()
	h := s.Alloc()
	f := s.Freeze()
	defer f.Release()
	s.Write(h).id = 1
	got := testing.AllocsPerRun(10, func() { s.Write(h).id++ })
	assert.Equal(t, got, 0, "allocations a later write")
}

// TestFrozenWhileOwnerWrites is for the race detector. A reader compares the view with a copy, again and again, while
// the owner changes everything.
func TestFrozenWhileOwnerWrites(t *testing.T) {
	s := NewPages[record]()
	var handles []uint32
	for id := range uint64(5000) {
		h := s.Alloc()
		*s.Write(h) = recordOf(id + 1)
		handles = append(handles, h)
	}
	for round := range uint64(5) {
		want := map[uint32]record{}
		for _, h := range handles {
			want[h] = *s.Read(h)
		}
		f := s.Freeze()
		var reader sync.WaitGroup
		done := make(chan struct{})
		reader.Go(func() {
			defer close(done)
			for range 3 {
				checkFrozen(t, f, want)
			}
			f.Release()
		})
		handles = churn(s, handles, round, done)
		reader.Wait()
	}
}

// churn writes, frees and allocates until done is closed, and goes through all handles at least once.
func churn(s *Pages[record], handles []uint32, round uint64, done <-chan struct{}) []uint32 {
	handles = slices.Clone(handles)
	for i := 0; ; i++ {
		if i >= len(handles) {
			select {
			case <-done:
				return handles
			default:
			}
		}
		at := i * 7919 % len(handles)
		if i%3 == 0 {
			s.Free(handles[at])
			handles[at] = s.Alloc()
		}
		*s.Write(handles[at]) = recordOf(round<<32 | uint64(i) + 1)
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}
