package turns

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// queued lets pieces of namespaces wait at a busy gate, in this order, and returns the order in which they were
// admitted.
func queued(t *testing.T, g *Gate, namespaces []string, bytes int) (admitted []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for range g.limit {
			g.Enter("busy", 1)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, namespace := range namespaces {
			all.Go(func() {
				g.Enter(namespace, bytes)
				mu.Lock()
				admitted = append(admitted, namespace)
				mu.Unlock()
			})
			synctest.Wait() // it waits in its line
		}
		for range namespaces {
			g.Leave()
			synctest.Wait()
		}
		all.Wait()
		for range g.limit {
			g.Leave()
		}
		if g.atWork != 0 || len(g.full) != 0 {
			t.Errorf("%d pieces at work, %d lines wait", g.atWork, len(g.full))
		}
	})
	return admitted
}

func repeated(namespace string, n int) []string { return slices.Repeat([]string{namespace}, n) }

// TestNeighbourComesNext checks that a piece that comes after a hundred of a storm waits for at most one of them.
func TestNeighbourComesNext(t *testing.T) {
	order := queued(t, New(2, nil), append(repeated("storm", 100), "neighbour"), pieceBytes)
	if at := slices.Index(order, "neighbour"); at > 1 {
		t.Errorf("the neighbour is admitted as number %d", at)
	}
}

// TestWeights checks that namespaces with pieces waiting all the time work in the proportion of their weights.
func TestWeights(t *testing.T) {
	weights := map[string]int{"light": 1, "heavy": 3}
	g := New(1, func(namespace string) int { return weights[namespace] })
	order := queued(t, g, append(repeated("light", 40), repeated("heavy", 40)...), pieceBytes)
	heavy := 0
	for _, namespace := range order[:40] {
		if namespace == "heavy" {
			heavy++
		}
	}
	if heavy < 29 || heavy > 31 {
		t.Errorf("%d of the first 40 pieces are the heavy namespace's", heavy)
	}
}

// TestPastIdlenessIsNoCredit checks that a namespace that did nothing for long gets no more than its part then.
func TestPastIdlenessIsNoCredit(t *testing.T) {
	g := New(1, nil)
	queued(t, g, append(repeated("a", 100), "b"), pieceBytes)
	order := queued(t, g, append(repeated("a", 20), repeated("b", 20)...), pieceBytes)
	b := 0
	for _, namespace := range order[:20] {
		if namespace == "b" {
			b++
		}
	}
	if b < 9 || b > 11 {
		t.Errorf("%d of the first 20 pieces are of the namespace that was idle", b)
	}
}

// TestNoMoreThanTheLimitWork lets pieces of many namespaces work at the same time.
func TestNoMoreThanTheLimitWork(t *testing.T) {
	const limit = 3
	g := New(limit, nil)
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
	if most > limit || g.atWork != 0 || len(g.full) != 0 {
		t.Errorf("%d pieces worked at the same time, %d still do", most, g.atWork)
	}
	if len(g.lines) > 0 {
		t.Errorf("%d lines are kept without work", len(g.lines))
	}
}

// TestTurnEndsAfterAPiece checks that a long work lets another one in.
func TestTurnEndsAfterAPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(1, nil)
		long := g.Turn("storm")
		long.Work(pieceBytes - 1)
		let := make(chan struct{})
		go func() {
			g.Enter("neighbour", 1)
			close(let)
			g.Leave()
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
		if g.atWork != 0 {
			t.Errorf("%d pieces are at work", g.atWork)
		}
	})
}

// BenchmarkGate measures a piece at an idle gate, and a line of a batch.
func BenchmarkGate(b *testing.B) {
	b.Run("piece", func(b *testing.B) {
		g := New(2, nil)
		for b.Loop() {
			g.Enter("default", 300)
			g.Leave()
		}
	})
	b.Run("line", func(b *testing.B) {
		turn := New(2, nil).Turn("default")
		for b.Loop() {
			turn.Work(300)
		}
		turn.Pause()
	})
}
