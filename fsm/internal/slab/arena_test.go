package slab

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// blobOf returns n bytes that depend on the blob's id and on their position.
func blobOf(id uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(id*31 + uint64(i)*7)
	}
	return b
}

// sizes draws lengths from every kind: a byte, usual payloads, class bounds, the border to large, large.
func sizes() *rapid.Generator[int] {
	return rapid.OneOf(
		rapid.IntRange(1, 40), rapid.IntRange(90, 140), rapid.IntRange(240, 1100),
		rapid.IntRange(maxSlot-10, maxSlot+10), rapid.SampledFrom([]int{16 << 10, 256<<10 + 3}),
	)
}

// arenaModel drives an Arena beside a map. A frozen view must show a copy of that map.
type arenaModel struct {
	a      *Arena
	want   map[Ref][]byte
	refs   []Ref
	next   uint64
	live   int64
	frozen *FrozenArena
	then   map[Ref][]byte
}

func (m *arenaModel) put(t *rapid.T) {
	n := sizes().Draw(t, "bytes")
	count := rapid.IntRange(1, max(1, min(100, 40_000/n))).Draw(t, "blobs")
	for range count {
		m.next++
		b := blobOf(m.next, n)
		r := m.a.Put(b)
		if _, taken := m.want[r]; taken || r == 0 {
			t.Fatalf("ref %d is given twice, or zero", r)
		}
		if _, seen := m.then[r]; seen && m.frozen != nil {
			t.Fatalf("ref %d is given again while a view needs it", r)
		}
		m.want[r] = b
		m.live += int64(n)
		m.refs = append(m.refs, r)
	}
}

func (m *arenaModel) free(t *rapid.T) {
	for range min(len(m.refs), rapid.IntRange(1, 80).Draw(t, "blobs")) {
		i := rapid.IntRange(0, len(m.refs)-1).Draw(t, "which")
		r := m.refs[i]
		m.a.Free(r)
		m.live -= int64(len(m.want[r]))
		delete(m.want, r)
		m.refs[i] = m.refs[len(m.refs)-1]
		m.refs = m.refs[:len(m.refs)-1]
	}
}

func (m *arenaModel) freeze(t *rapid.T) {
	if m.frozen != nil {
		return // frozen already
	}
	m.frozen, m.then = m.a.Freeze(), maps.Clone(m.want)
}

func (m *arenaModel) release(t *rapid.T) {
	if m.frozen == nil {
		return // not frozen
	}
	m.frozen.Release()
	m.frozen.Release()
	m.frozen = nil
}

func (m *arenaModel) check(t *rapid.T) {
	for r, b := range m.want {
		if !bytes.Equal(m.a.Get(r), b) {
			t.Fatalf("blob %d of %d bytes is not what was put", r, len(b))
		}
	}
	if m.a.Live() != m.live || m.a.Bytes()-m.a.FreeBytes() < m.live || m.a.FreeBytes() < 0 {
		t.Fatalf("live %d, held %d, free %d, want %d live", m.a.Live(), m.a.Bytes(), m.a.FreeBytes(), m.live)
	}
	if m.frozen == nil {
		return
	}
	for r, b := range m.then {
		if !bytes.Equal(m.frozen.Get(r), b) {
			t.Fatalf("frozen blob %d of %d bytes is not what it was", r, len(b))
		}
	}
}

func TestArenaModel(t *testing.T) { rapid.Check(t, playArena) }

func FuzzArena(f *testing.F) {
	addRandom(f)
	f.Fuzz(rapid.MakeFuzz(playArena))
}

// addRandom adds seeds that are long enough for whole histories: rapid skips an input that ends too early.
func addRandom(f *testing.F) {
	source := rand.NewChaCha8([32]byte{})
	for range 8 {
		seed := make([]byte, 16<<10)
		_, _ = source.Read(seed) // never fails
		f.Add(seed)
	}
}

// playArena plays one history against the model.
func playArena(t *rapid.T) {
	m := &arenaModel{a: NewArena(), want: map[Ref][]byte{}}
	t.Repeat(map[string]func(*rapid.T){
		"put": m.put, "free": m.free, "freeze": m.freeze, "release": m.release, "": m.check,
	})
}

func TestClasses(t *testing.T) {
	for n := 1; n <= maxSlot; n++ {
		class := classFor(n)
		if size := slotSize(class); size < n || size%unit != 0 {
			t.Fatalf("%d bytes are put into slots of %d", n, size)
		}
		if class > 0 && slotSize(class-1) >= n {
			t.Fatalf("%d bytes fit class %d already, but get %d", n, class-1, class)
		}
	}
	if got := classFor(maxSlot); got != classes-1 {
		t.Errorf("the largest slot is class %d of %d", got, classes)
	}
}

func TestNoBlob(t *testing.T) {
	a := NewArena()
	if r := a.Put(nil); r != 0 || a.Get(r) != nil {
		t.Errorf("an empty blob is ref %d", r)
	}
	a.Free(0)
	if got := a.Bytes(); got > 200 {
		t.Errorf("an empty arena holds %d bytes", got)
	}
	a.Put([]byte("x"))
	if got := a.Bytes(); got > minChunk+200 {
		t.Errorf("an arena of one byte holds %d bytes", got)
	}
}

func TestArenaOverhead(t *testing.T) {
	const blobs = 200_000
	a := NewArena()
	for i := range uint64(blobs) {
		a.Put(blobOf(i, 100+int(i%21)))
	}
	if got := float64(a.Bytes()-a.Live()) / blobs; got > 6 {
		t.Errorf("%.2f bytes of overhead a blob of 100 to 120 bytes", got)
	}
}

func TestArenaGivesMemoryBack(t *testing.T) {
	a := NewArena()
	fill := func(n int) (refs []Ref) {
		for i := range uint64(200_000) { // enough for chunks of full size
			refs = append(refs, a.Put(blobOf(i, n)))
		}
		return refs
	}
	refs := fill(100)
	most := a.Bytes()
	for _, r := range refs {
		a.Free(r)
	}
	if got := a.Bytes(); got > maxChunk+most/100 {
		t.Errorf("an emptied arena holds %d of %d bytes, more than its spare chunk and tables", got, most)
	}
	if got := a.FreeBytes(); got != maxChunk {
		t.Errorf("%d bytes are free in an emptied arena, want the spare chunk", got)
	}
	fill(60) // another class
	if got := a.Bytes(); got > most {
		t.Errorf("smaller blobs take %d bytes, the larger ones took %d", got, most)
	}
}

// Blobs that were freed under a view count as free after its release, even if no Put follows. An owner without room
// would otherwise never have room again.
func TestFreedUnderAViewIsFreeAfterIt(t *testing.T) {
	a := NewArena()
	var refs []Ref
	for i := range uint64(1000) {
		refs = append(refs, a.Put(blobOf(i, 100)), a.Put(blobOf(i, maxSlot+1)))
	}
	before := a.FreeBytes()
	view := a.Freeze()
	for _, r := range refs {
		a.Free(r)
	}
	if got := a.FreeBytes(); got != before {
		t.Errorf("%d bytes are free under a view, %d were before", got, before)
	}
	view.Release()
	if got := a.FreeBytes() - before; got < 1000*(100+maxSlot) {
		t.Errorf("%d bytes became free with its release", got)
	}
	for a.frozen != nil || a.looseBytes > 0 {
		a.Free(a.Put([]byte("x")))
	}
	if used := a.held - a.FreeBytes(); used != 0 || a.used != 0 || a.freedBytes != 0 {
		t.Errorf("%d bytes are in use in an empty arena, %d freed under no view", used, a.freedBytes)
	}
}

// TestSpareChunk empties the last chunk of full size, which then comes and goes with a single blob.
func TestSpareChunk(t *testing.T) {
	a, blob := NewArena(), blobOf(1, 100)
	last := map[uint32][]Ref{}
	number := uint32(0)
	for len(a.chunks[number]) < maxChunk || len(last[number]) < 2 {
		r := a.Put(blob)
		number = uint32(r) >> placeBits
		last[number] = append(last[number], r)
	}
	for _, r := range last[number] {
		a.Free(r)
	}
	held := a.Bytes()
	if got := testing.AllocsPerRun(10, func() { a.Free(a.Put(blob)) }); got != 0 || a.Bytes() != held {
		t.Errorf("%v allocations a blob, %d bytes held after %d", got, a.Bytes(), held)
	}
	if got := a.Put(blob); got != last[number][0] {
		t.Fatalf("the chunk came back with ref %d first, it was %d", got, last[number][0])
	}
	mustPanic(t, "read in a chunk that was empty in between", func() { a.Get(last[number][1]) })

	a.Free(last[number][0])
	if slices.ContainsFunc(a.newMemory(maxChunk), func(b byte) bool { return b != 0 }) {
		t.Error("the spare chunk is handed out as it was left: another class would take bytes of it for blobs")
	}
}

func TestArenaBrokenInvariants(t *testing.T) {
	a := NewArena()
	for _, n := range []int{5, 300, 20 << 10} {
		r := a.Put(blobOf(1, n))
		a.Put(blobOf(2, n)) // the chunk stays
		a.Free(r)
		mustPanic(t, "freed twice", func() { a.Free(r) })
		mustPanic(t, "read when freed", func() { a.Get(r) })
	}
	f := a.Freeze()
	mustPanic(t, "frozen twice", func() { a.Freeze() })
	f.Release()
	mustPanic(t, "read after release", func() { f.Get(1) })
	a.Freeze().Release()
}

// TestFreedBlobsAreRecycled frees blobs under a view and checks that their room is used again after its release.
func TestFreedBlobsAreRecycled(t *testing.T) {
	a := NewArena()
	var refs []Ref
	for i := range uint64(50_000) {
		refs = append(refs, a.Put(blobOf(i, 100)))
	}
	held := a.Bytes()
	f := a.Freeze()
	for _, r := range refs {
		a.Free(r)
	}
	f.Release()
	for i := range uint64(50_000) {
		a.Put(blobOf(i, 100))
	}
	if got := a.Bytes(); got > held+held/20 {
		t.Errorf("grew from %d to %d bytes, though all was freed", held, got)
	}
}

// TestFrozenArenaWhileOwnerWrites is for the race detector.
func TestFrozenArenaWhileOwnerWrites(t *testing.T) {
	a := NewArena()
	want := map[Ref][]byte{}
	put := func(id uint64) {
		b := blobOf(id, []int{9, 100, 110, 700, 9000}[id%5])
		want[a.Put(b)] = b
	}
	for id := range uint64(3000) {
		put(id)
	}
	for round := range uint64(5) {
		f, then := a.Freeze(), maps.Clone(want)
		var reader sync.WaitGroup
		reader.Go(func() {
			for r, b := range then {
				if !bytes.Equal(f.Get(r), b) {
					t.Errorf("frozen blob %d is not what it was", r)
				}
			}
			f.Release()
		})
		for r := range then {
			a.Free(r)
			delete(want, r)
			put(uint64(r) + round)
		}
		reader.Wait()
	}
}
