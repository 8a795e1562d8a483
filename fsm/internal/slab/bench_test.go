package slab

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

const million = 1_000_000

// filledPages returns n records in use.
func filledPages(n int) *Pages[record] {
	s := NewPages[record]()
	for id := range uint64(n) {
		*s.Write(s.Alloc()) = recordOf(id + 1)
	}
	return s
}

// ids draws numbers from 1 to n, without the cost of a good generator.
type ids struct{ state, n uint64 }

func (d *ids) next() uint32 {
	d.state++
	return 1 + uint32(mix(d.state)>>32*d.n>>32)
}

func BenchmarkPagesRead(b *testing.B) {
	s, draw := filledPages(million), ids{n: million}
	var sum uint64
	for b.Loop() {
		sum += s.Read(draw.next()).id
	}
	runtime.KeepAlive(sum)
}

func BenchmarkPagesAllocFree(b *testing.B) {
	s, draw := filledPages(million), ids{n: million}
	for b.Loop() {
		s.Free(draw.next())
		s.Write(s.Alloc()).id = 1
	}
}

func BenchmarkPagesGrow(b *testing.B) {
	for b.Loop() {
		filledPages(million)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/record")
}

// BenchmarkPagesWriteFrozen measures the first write to a page while a view is held. Later writes are as cheap as
// BenchmarkPagesRead.
func BenchmarkPagesWriteFrozen(b *testing.B) {
	s := filledPages(million)
	f := s.Freeze()
	page := 0
	for b.Loop() {
		if page++; page == f.Pages() {
			b.StopTimer()
			f.Release()
			f, page = s.Freeze(), 1
			b.StartTimer()
		}
		s.Write(uint32(page * PageRecords)).id = 1
	}
	f.Release()
}

func BenchmarkPagesFreeze(b *testing.B) {
	for _, n := range []int{million, 10 * million} {
		b.Run(millions(n), func(b *testing.B) {
			s := filledPages(n)
			var pause time.Duration
			for b.Loop() {
				start := time.Now()
				f := s.Freeze()
				pause += time.Since(start)
				f.Release()
			}
			b.ReportMetric(float64(pause.Nanoseconds())/float64(b.N), "pause-ns")
			b.ReportMetric(float64(s.Bytes())/float64(s.Len()), "B/record")
		})
	}
}

// BenchmarkGC measures one forced collection beside ten million records with a blob and an index entry each.
func BenchmarkGC(b *testing.B) {
	const n = 10 * million
	s, a, x := filledPages(n), filledArena(n), filledIndex(n)
	runtime.GC()
	for b.Loop() {
		runtime.GC()
	}
	b.ReportMetric(float64(s.Bytes()+a.Bytes()+x.Bytes())/n, "B/task")
	runtime.KeepAlive(s)
}

// filledArena returns an arena with n blobs of 100 to 120 bytes.
func filledArena(n int) *Arena {
	a, blob := NewArena(), make([]byte, 120)
	for i := range n {
		a.Put(blob[:100+i%21])
	}
	return a
}

func BenchmarkArenaPutFree(b *testing.B) {
	a, blob, draw := NewArena(), make([]byte, 120), ids{n: million}
	refs := make([]Ref, million+1)
	for i := range refs {
		refs[i] = a.Put(blob[:100+i%21])
	}
	for b.Loop() {
		i := draw.next()
		a.Free(refs[i])
		refs[i] = a.Put(blob[:100+i%21])
	}
	b.ReportMetric(float64(a.Bytes()-a.Live())/float64(len(refs)), "overhead-B/blob")
}

// BenchmarkStall reports the longest of some thousands of calls, at least one of which needs a new chunk.
func BenchmarkStall(b *testing.B) {
	s, a, blob := filledPages(million), filledArena(million), make([]byte, 110)
	calls := map[string]func(){
		"pages": func() { s.Write(s.Alloc()).id = 1 },
		"arena": func() { a.Put(blob) },
	}
	for name, call := range calls {
		b.Run(name, func(b *testing.B) {
			reportLongest(b, func() time.Duration { return longestOf(2*chunkRecords, call) })
		})
	}
}

// reportLongest reports the median over all rounds, because a shared machine interrupts some of them.
func reportLongest(b *testing.B, round func() time.Duration) {
	var longest []time.Duration
	for b.Loop() {
		longest = append(longest, round())
	}
	slices.Sort(longest)
	b.ReportMetric(float64(longest[len(longest)/2].Nanoseconds()), "longest-ns")
}

func longestOf(n int, call func()) (longest time.Duration) {
	for range n {
		start := time.Now()
		call()
		longest = max(longest, time.Since(start))
	}
	return longest
}

func BenchmarkArenaGet(b *testing.B) {
	a, draw := NewArena(), ids{n: million}
	refs := make([]Ref, million+1)
	for i := range refs {
		refs[i] = a.Put(make([]byte, 110))
	}
	sum := 0
	for b.Loop() {
		sum += len(a.Get(refs[draw.next()]))
	}
	runtime.KeepAlive(sum)
}

const benchSlots = 341 // a twelfth of all slots

func slotOf(h uint32) uint32 { return h % benchSlots * 12 }

// filledIndex returns an index of the handles 1 to n, spread over benchSlots slots.
func filledIndex(n int) *Index {
	x := NewIndex()
	for h := uint32(1); h <= uint32(n); h++ {
		x.Insert(slotOf(h), mix(uint64(h)), h)
	}
	return x
}

func BenchmarkIndexProbe(b *testing.B) {
	for _, n := range []int{million, 10 * million} {
		b.Run(millions(n), func(b *testing.B) {
			x, draw := filledIndex(n), ids{n: uint64(n)}
			for b.Loop() {
				h := draw.next()
				p := x.Probe(slotOf(h), mix(uint64(h)))
				if p.Next() == 0 {
					b.Fatal("a handle is lost")
				}
			}
			b.ReportMetric(float64(x.Bytes())/float64(handleCount(x)), "B/entry")
		})
	}
}

func BenchmarkIndexMiss(b *testing.B) {
	x := filledIndex(million)
	for b.Loop() {
		hash := rand.Uint64()
		p := x.Probe(slotOf(uint32(hash)), hash)
		p.Next()
	}
}

func BenchmarkIndexDeleteInsert(b *testing.B) {
	x, draw := filledIndex(million), ids{n: million}
	for b.Loop() {
		h := draw.next()
		x.Delete(slotOf(h), mix(uint64(h)), h)
		x.Insert(slotOf(h), mix(uint64(h)), h)
	}
}

// BenchmarkIndexStall reports the longest of the inserts that fill one slot with n entries.
func BenchmarkIndexStall(b *testing.B) {
	for _, n := range []int{2_500, 30_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			reportLongest(b, func() time.Duration { return longestInsert(n) })
		})
	}
}

func longestInsert(n int) time.Duration {
	x, h := NewIndex(), uint32(0)
	return longestOf(n, func() {
		h++
		x.Insert(0, mix(uint64(h)), h)
	})
}

func millions(n int) string {
	if n == million {
		return "1M"
	}
	return "10M"
}
