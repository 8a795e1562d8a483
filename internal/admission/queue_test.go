package admission

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// next takes the next piece at a price, and returns its name.
func next[T any](q *Queue[T], price float64) string {
	l := q.Next()
	q.Take(l)
	q.Charge(l, price)
	return l.Name()
}

// fill adds n pieces of a name.
func fill(q *Queue[int], name string, n int) {
	for i := range n {
		q.Add(name, i)
	}
}

// TestPiecesOfANeighbourComeNext checks that a name with few pieces waits for at most one of a storm, whatever it costs.
func TestPiecesOfANeighbourComeNext(t *testing.T) {
	var q Queue[int]
	fill(&q, "storm", 1000)
	for range 10 {
		next(&q, 1)
	}
	for range 20 {
		q.Add("neighbour", 0)
		if first, second := next(&q, 1000), next(&q, 1000); first != "neighbour" && second != "neighbour" {
			t.Fatal("the neighbour waits for two pieces")
		}
	}
}

// TestPricesByWeight checks that names with pieces all the time are served in proportion to their weights, by price.
func TestPricesByWeight(t *testing.T) {
	q := Queue[int]{Weights: func(name string) int { return map[string]int{"heavy": 3}[name] }}
	prices, sum := map[string]float64{"light": 10, "heavy": 1, "large": 500}, map[string]float64{}
	for name := range prices {
		fill(&q, name, 20_000)
	}
	for range 10_000 {
		l := q.Next()
		q.Take(l)
		q.Charge(l, prices[l.Name()])
		sum[l.Name()] += prices[l.Name()]
	}
	if heavy, large := sum["heavy"]/sum["light"], sum["large"]/sum["light"]; heavy < 2.8 || heavy > 3.2 ||
		large < 0.8 || large > 1.2 {
		t.Errorf("%v", sum)
	}
}

// TestPassedOverIsNoCredit checks that a name that was passed over has no claim to what others got meanwhile.
func TestPassedOverIsNoCredit(t *testing.T) {
	var q Queue[int]
	fill(&q, "rests", 100)
	fill(&q, "other", 200)
	for range 100 {
		l := q.NextOf(func(name string) bool { return name != "rests" })
		q.Take(l)
		q.Charge(l, 1)
	}
	if l := q.NextOf(func(string) bool { return false }); l != nil {
		t.Errorf("%s passes", l.Name())
	}
	rests := 0
	for range 20 {
		if next(&q, 1) == "rests" {
			rests++
		}
	}
	if rests < 9 || rests > 11 {
		t.Errorf("%d of 20 pieces after a rest", rests)
	}
}

// TestPieceMayComeBack checks that the rest of a piece may be added again before its part is charged.
func TestPieceMayComeBack(t *testing.T) {
	var q Queue[int]
	q.Add("large", 5)
	q.Add("large", 0)
	q.Add("small", 1)
	var order []string
	for q.Len() > 0 {
		l := q.Next()
		left := q.Take(l)
		if left > 1 {
			q.Add(l.Name(), left-1)
		}
		q.Charge(l, 1)
		order = append(order, fmt.Sprint(l.Name(), left))
	}
	want := []string{"large5", "small1", "large0", "large4", "large3", "large2", "large1"}
	if !slices.Equal(order, want) {
		t.Errorf("%v", order)
	}
}

// TestQueueModel adds, takes and removes at random. The pieces of each name leave in order, each of them once.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		model, number := map[string][]int{}, 0
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch name := names.Draw(t, "name"); rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				number++
				q.Add(name, number)
				model[name] = append(model[name], number)
			case 2:
				l := q.Next()
				if rapid.Bool().Draw(t, "some pass") {
					l = q.NextOf(func(other string) bool { return other != name })
				}
				if l == nil {
					continue
				}
				if first := l.First(); first != model[l.Name()][0] || l.Len() != len(model[l.Name()]) || q.Take(l) != first {
					t.Fatalf("%d of %s is first", first, l.Name())
				}
				model[l.Name()] = model[l.Name()][1:]
				q.Charge(l, float64(rapid.IntRange(0, 9).Draw(t, "price")))
			case 3:
				piece := rapid.IntRange(0, number+1).Draw(t, "piece")
				at := slices.Index(model[name], piece)
				if q.Remove(name, func(other int) bool { return other == piece }) != (at >= 0) {
					t.Fatalf("%d of %s is removed", piece, name)
				}
				if at >= 0 {
					model[name] = slices.Delete(model[name], at, at+1)
				}
			}
			var all []int
			names := 0
			for _, pieces := range model {
				all = append(all, pieces...)
				if len(pieces) > 0 {
					names++
				}
			}
			got := slices.Sorted(q.All())
			slices.Sort(all)
			if !slices.Equal(all, got) || q.Len() != len(all) || q.Names() != names {
				t.Fatalf("%v of %d names, not %v", got, q.Names(), all)
			}
			for i, l := range q.waiting {
				if l.index != i || i > 0 && l.isBefore(q.waiting[(i-1)/2]) {
					t.Fatalf("line %d is no part of a heap", i)
				}
			}
		}
		q.Clear()
		if q.Len() != 0 || q.Next() != nil {
			t.Fatal("pieces are left")
		}
	})
}

// TestLinesAreForgotten checks that a name without pieces leaves no record for long, although it was served more than
// others.
func TestLinesAreForgotten(t *testing.T) {
	var q Queue[int]
	for i := range 100 {
		q.Add(fmt.Sprint("kept", i), 0)
	}
	for i := range 10 * minNames {
		q.Add(fmt.Sprint(i), i)
	}
	for q.Len() > 0 {
		next(&q, float64(q.Len()%7))
	}
	for i := range 10 * minNames {
		q.Add(fmt.Sprint("late", i), i)
		next(&q, float64(i%5))
	}
	if n := len(q.byName); n > minNames {
		t.Errorf("%d records", n)
	}
}

// TestMemoryIsReused checks that a line that is never empty for long keeps no room for pieces that have left.
func TestMemoryIsReused(t *testing.T) {
	var q Queue[int]
	fill(&q, "a", 3)
	for i := range 10_000 {
		q.Add("a", i)
		next(&q, 1)
	}
	if n := cap(q.Next().pieces); n > 16 {
		t.Errorf("room for %d pieces", n)
	}
	fill(&q, "large", 10*maxKept)
	for q.byName["large"].Len() > 0 {
		next(&q, 1)
	}
	if n := cap(q.byName["large"].pieces); n > maxKept {
		t.Errorf("an empty line keeps room for %d pieces", n)
	}
	if n := testing.AllocsPerRun(100, func() { q.Add("a", 0); next(&q, 1) }); n > 0 {
		t.Errorf("%v allocations for a piece", n)
	}
}

// TestMix checks that a name alone is not mixed, that two are for a second, and that calls of no name do not count.
func TestMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Mix{Now: time.Now}
		for _, step := range []struct {
			name  string
			after time.Duration
			mixed bool
		}{
			{"a", 0, false}, {"", 0, false}, {"a", 0, false}, {"b", 0, true}, {"b", mixedFor - 1, true}, {"b", 1, false},
			{"", 0, false}, {"b", 0, false}, {"a", 0, true}, {"a", mixedFor, false},
		} {
			time.Sleep(step.after)
			if m.Note(step.name); m.IsMixed() != step.mixed {
				t.Errorf("%+v", step)
			}
		}
	})
}

// BenchmarkQueue measures a piece that is added and taken, of one name and of many.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var q Queue[int]
			var names []string
			for i := range n {
				names = append(names, fmt.Sprint("name", i))
				q.Add(names[i], i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q.Add(names[i%n], i)
				next(&q, 1)
			}
		})
	}
}
