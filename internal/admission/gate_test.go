package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// queued lets pieces of names wait at a busy gate, in this order, and returns the order in which they were
// admitted.
func queued(t *testing.T, g *Gate, names []string, bytes int) (admitted []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for range g.limit {
			g.Enter("busy", 1)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, name := range names {
			all.Go(func() {
				g.Enter(name, bytes)
				mu.Lock()
				admitted = append(admitted, name)
				mu.Unlock()
			})
			synctest.Wait() // it waits in its line
		}
		for range names {
			g.Leave("busy")
			synctest.Wait()
		}
		all.Wait()
		for range g.limit {
			g.Leave("busy")
		}
		if g.atWork != 0 || g.queue.Len() != 0 {
			t.Errorf("%d pieces at work, %d wait", g.atWork, g.queue.Len())
		}
	})
	return admitted
}

func repeated(name string, n int) []string { return slices.Repeat([]string{name}, n) }

// TestNeighbourComesNext checks that a piece that comes after a hundred of a storm waits for at most one of them.
func TestNeighbourComesNext(t *testing.T) {
	order := queued(t, NewGate(2, 0, nil), append(repeated("storm", 100), "neighbour"), pieceBytes)
	if at := slices.Index(order, "neighbour"); at > 1 {
		t.Errorf("the neighbour is admitted as number %d", at)
	}
}

// TestWeights checks that names with pieces waiting all the time work in the proportion of their weights.
func TestWeights(t *testing.T) {
	weights := map[string]int{"light": 1, "heavy": 3}
	g := NewGate(1, 0, func(name string) int { return weights[name] })
	order := queued(t, g, append(repeated("light", 40), repeated("heavy", 40)...), pieceBytes)
	heavy := 0
	for _, name := range order[:40] {
		if name == "heavy" {
			heavy++
		}
	}
	if heavy < 29 || heavy > 31 {
		t.Errorf("%d of the first 40 pieces are the heavy name's", heavy)
	}
}

// TestPastIdlenessIsNoCredit checks that a name that did nothing for long gets no more than its part then.
func TestPastIdlenessIsNoCredit(t *testing.T) {
	g := NewGate(1, 0, nil)
	queued(t, g, append(repeated("a", 100), "b"), pieceBytes)
	order := queued(t, g, append(repeated("a", 20), repeated("b", 20)...), pieceBytes)
	b := 0
	for _, name := range order[:20] {
		if name == "b" {
			b++
		}
	}
	if b < 9 || b > 11 {
		t.Errorf("%d of the first 20 pieces are of the name that was idle", b)
	}
}

// TestNoMoreThanTheLimitWork lets pieces of many names work at the same time.
func TestNoMoreThanTheLimitWork(t *testing.T) {
	const limit = 3
	g := NewGate(limit, 0, nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	working, most := 0, 0
	for i := range 200 {
		turn := g.Turn(fmt.Sprint("n", i%100))
		all.Go(func() {
			for range 20 {
				turn.Work(pieceBytes / 3)
				mu.Lock()
				working++
				most = max(most, working)
				mu.Unlock()
				mu.Lock()
				working--
				mu.Unlock()
			}
			turn.Pause()
		})
	}
	all.Wait()
	if most > limit || g.atWork != 0 || g.queue.Len() != 0 {
		t.Errorf("%d pieces worked at the same time, %d still do", most, g.atWork)
	}
}

// TestTurnEndsAfterAPiece checks that a long work lets another one in.
func TestTurnEndsAfterAPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 0, nil)
		long := g.Turn("storm")
		long.Work(pieceBytes - 1)
		let := make(chan struct{})
		go func() {
			g.Enter("neighbour", 1)
			close(let)
			g.Leave("neighbour")
		}()
		synctest.Wait()
		long.Work(1)
		select {
		case <-let:
			t.Error("the piece ended early")
		default:
		}
		long.Work(1)
		synctest.Wait()
		<-let
		long.Pause()
		long.Pause()
		assert.Equal(t, g.atWork, 0, "pieces are at work")
	})
}

// await waits at a gate until a piece may begin or a millisecond is over, and reports whether it may begin.
func await(t *testing.T, g *Gate, name string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := g.Await(ctx, name)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

// TestEachHasItsBound checks that a name waits for its own pieces only.
func TestEachHasItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(0, 2, nil)
		for name, want := range map[string]int{"a": 2, "b": 2} {
			for i := range 3 {
				assert.Equal(t, await(t, g, name), i < want, "piece %d of %s may begin", i, name)
			}
		}
		begun := make(chan string)
		for _, name := range []string{"a", "b"} {
			go func() {
				g.Enter(name, 1)
				begun <- name
			}()
			synctest.Wait()
		}
		g.Leave("b")
		if name := <-begun; name != "b" {
			t.Errorf("a piece of %s begins after one of b", name)
		}
		g.Leave("a")
		<-begun
		for _, name := range []string{"a", "a", "b", "b"} {
			g.Leave(name)
		}
		if g.atWork != 0 || len(g.own) != 0 || g.queue.Len() != 0 {
			t.Errorf("%d pieces of %v at work, %d wait", g.atWork, g.own, g.queue.Len())
		}
	})
}

// TestBothBoundsHold checks that a piece of another name passes those that wait for their own name.
func TestBothBoundsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2, 1, nil)
		for _, step := range []struct {
			name   string
			begins bool
		}{{"a", true}, {"a", false}, {"b", true}, {"c", false}} {
			assert.Equal(t, await(t, g, step.name), step.begins, "%s begins", step.name)
		}
		admitted := make(chan string, 2)
		for _, name := range []string{"a", "c"} {
			go func() {
				g.Enter(name, 1)
				admitted <- name
			}()
			synctest.Wait()
		}
		g.Leave("b")
		assert.Equal(t, <-admitted, "c", "begins beside another piece of its name")
		g.Leave("c")
		g.Leave("a")
		<-admitted
		g.Leave("a")
	})
}

// BenchmarkGate measures a piece at an idle gate, and a line of a batch.
func BenchmarkGate(b *testing.B) {
	b.Run("piece", func(b *testing.B) {
		g := NewGate(2, 0, nil)
		for b.Loop() {
			g.Enter("default", 300)
			g.Leave("default")
		}
	})
	b.Run("line", func(b *testing.B) {
		turn := NewGate(2, 0, nil).Turn("default")
		for b.Loop() {
			turn.Work(300)
		}
		turn.Pause()
	})
}
