package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// commit commits at once, or returns 0 if the namespace must wait.
func commit(t *testing.T, c *Crowd, namespace string, lines int) (n int, done func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	n, done, err := c.Commit(ctx, namespace, lines)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return n, done
}

// TestAloneANamespaceCommitsAll checks that commits are whole and unbounded while one namespace calls, and again a
// second after the last call of another one.
func TestAloneANamespaceCommitsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCrowd(nil)
		all := func() {
			t.Helper()
			c.Seen("a")
			for range 3 {
				if n, _ := commit(t, c, "a", 2000); n != 2000 {
					t.Errorf("%d lines of 2000", n)
				}
			}
		}
		all()
		c.Seen("b")
		if n, done := commit(t, c, "a", 2000); n != crowdedLines {
			t.Errorf("%d lines beside another namespace", n)
		} else {
			done()
		}
		c.Seen("b")
		time.Sleep(crowdedFor)
		c.Seen("b")
		time.Sleep(crowdedFor) // the change from b to a is over, too
		c.newest = "a"
		all()
	})
}

// TestOneCommitAtATime checks that a namespace waits for its own commit, and for no other namespace's.
func TestOneCommitAtATime(t *testing.T) {
	c := NewCrowd(func(namespace string) int { return map[string]int{"heavy": 3}[namespace] })
	c.Seen("storm")
	c.Seen("heavy")
	n, done := commit(t, c, "storm", 1000)
	if n != crowdedLines {
		t.Errorf("%d lines", n)
	}
	if n, _ := commit(t, c, "storm", 1); n != 0 {
		t.Error("a second commit of the namespace begins")
	}
	if n, other := commit(t, c, "heavy", 1000); n != 3*crowdedLines {
		t.Errorf("%d lines of the heavy namespace", n)
	} else {
		other()
	}
	done()
	if n, again := commit(t, c, "storm", 5); n != 5 {
		t.Errorf("%d lines of 5", n)
	} else {
		again()
	}
	if len(c.commits) != 0 {
		t.Errorf("%d namespaces are kept", len(c.commits))
	}
}
