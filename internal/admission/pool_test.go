package admission

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestEachLeavesRoom checks that names that take all they can get leave room for the next one.
func TestEachLeavesRoom(t *testing.T) {
	p := NewPool(256)
	for i, want := range []int{128, 64, 32, 16, 8, 4, 2, 1} {
		got := 0
		for Part.Take(Part{p, fmt.Sprint("n", i)}, 1) {
			got++
		}
		assert.Equal(t, got, want, "name %d takes", i)
	}
	if most, ok := p.Take("n0", 1); ok || most != 128 {
		t.Errorf("the first one may take %d in all", most)
	}
	if _, ok := p.Take("", 1); !ok {
		t.Error("an operator does not get the last one")
	}
	if _, ok := p.Take("", 1); ok || p.Taken() != 256 {
		t.Errorf("%d are taken of 256", p.Taken())
	}
}

// TestCallersWithoutCredentialsTakeAll checks the pool of a node without keys.
func TestCallersWithoutCredentialsTakeAll(t *testing.T) {
	p := NewPool(10)
	if _, ok := p.Take("", 11); ok {
		t.Error("11 of 10 are taken")
	}
	if _, ok := p.Take("", 10); !ok {
		t.Error("10 of 10 are refused")
	}
}

func TestAllIsGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPool(rapid.IntRange(1, 50).Draw(t, "limit"))
		type taken struct {
			Part
			n int
		}
		var held []taken
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "gives") {
				held[0].Give(held[0].n)
				held = held[1:]
				continue
			}
			part := Part{p, fmt.Sprint(rapid.IntRange(0, 150).Draw(t, "name"))}
			n, own, free := rapid.IntRange(0, 10).Draw(t, "n"), p.holdingOf(part.Name).held, p.limit-p.taken
			if part.Take(n) {
				held = append(held, taken{part, n})
				if n > 0 && own+n > free-n+1 {
					t.Fatalf("%d and %d more are held, %d were free", own, n, free)
				}
			}
		}
		for _, h := range held {
			h.Give(h.n)
		}
		for name, own := range p.holdings {
			assert.MustEqual(t, own.held, 0, "%s holds", name)
		}
		if p.taken != 0 || len(p.holdings) > 151 {
			t.Fatalf("%d are taken, %d names known", p.taken, len(p.holdings))
		}
	})
}

// TestNamesAreForgotten checks that names that hold nothing leave no record for long, and that those that hold some keep
// theirs.
func TestNamesAreForgotten(t *testing.T) {
	p := NewPool(1 << 40)
	for i := range 100 {
		p.Resize(fmt.Sprint("kept", i), i)
	}
	for i := range 10 * minNames {
		part := Part{p, fmt.Sprint(i)}
		if !part.Take(1) {
			t.Fatal("refused")
		}
		part.Give(1)
	}
	if n := len(p.holdings); n > 2*(100+1) {
		t.Errorf("%d records", n)
	}
	for i := range 100 {
		p.Give(fmt.Sprint("kept", i), i)
	}
	if p.Taken() != 0 {
		t.Errorf("%d are taken", p.Taken())
	}
}

// TestCap checks that a name gets a fixed part of a pool, also the empty one, and no more than is free.
func TestCap(t *testing.T) {
	p := NewCappedPool(10, 7)
	for _, test := range []struct {
		name    string
		n, most int
		ok      bool
	}{
		{"a", 8, 7, false}, {"a", 7, 7, true}, {"a", 1, 7, false}, {"", 4, 3, false}, {"", 3, 3, true}, {"b", 1, 0, false},
	} {
		if most, ok := p.Take(test.name, test.n); most != test.most || ok != test.ok {
			t.Errorf("%d for %q: %v, at most %d", test.n, test.name, ok, most)
		}
	}
}

// TestFirstIsNeverRefused checks that a part larger than the pool is taken while nothing is held, and only then.
func TestFirstIsNeverRefused(t *testing.T) {
	p := NewPool(10)
	if !p.TakeFirst("a", 11) {
		t.Error("the first part is refused")
	}
	if p.TakeFirst("b", 1) {
		t.Error("a part beside one that takes all")
	}
	p.Resize("a", -9)
	for want, n := range []int{5, 4} {
		assert.Equal(t, p.TakeFirst("b", n), want == 1, "%d of 8", n)
	}
}

// BenchmarkPool measures a part that is taken and given back.
func BenchmarkPool(b *testing.B) {
	p := NewPool(4096)
	for b.Loop() {
		if _, ok := p.Take("default", 1); ok {
			p.Give("default", 1)
		}
	}
}
