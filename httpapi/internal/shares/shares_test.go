package shares

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestEachLeavesRoom checks that namespaces that take all they can get leave room for the next one.
func TestEachLeavesRoom(t *testing.T) {
	p := New(256)
	for i, want := range []int{128, 64, 32, 16, 8, 4, 2, 1} {
		got := 0
		for Part.Take(Part{p, fmt.Sprint("n", i)}, 1) {
			got++
		}
		if got != want {
			t.Errorf("namespace %d takes %d, not %d", i, got, want)
		}
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
	p := New(10)
	if _, ok := p.Take("", 11); ok {
		t.Error("11 of 10 are taken")
	}
	if _, ok := p.Take("", 10); !ok {
		t.Error("10 of 10 are refused")
	}
}

func TestAllIsGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(rapid.IntRange(1, 50).Draw(t, "limit"))
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
			part := Part{p, fmt.Sprint(rapid.IntRange(0, 150).Draw(t, "namespace"))}
			n, own, free := rapid.IntRange(0, 10).Draw(t, "n"), p.by[part.Namespace], p.limit-p.taken
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
		for namespace, n := range p.by {
			if n != 0 {
				t.Fatalf("%s holds %d", namespace, n)
			}
		}
		if p.taken != 0 || len(p.by) > maxIdle+1 {
			t.Fatalf("%d are taken, %d namespaces known", p.taken, len(p.by))
		}
	})
}

// BenchmarkPool measures a part that is taken and given back.
func BenchmarkPool(b *testing.B) {
	p := New(4096)
	for b.Loop() {
		if _, ok := p.Take("default", 1); ok {
			p.Give("default", 1)
		}
	}
}
