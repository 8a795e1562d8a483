package calls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// placement has the replicas of the only shard, and the nodes that are dead.
type placement struct {
	placed *clusterpb.Shard
	dead   []string
}

func (p placement) Placed(uint32) *clusterpb.Shard { return p.placed }

func (p placement) Alive(node string) bool { return !slices.Contains(p.dead, node) }

// search returns a Search in a shard on the nodes a, b and c, where a is preferred and the dead nodes are not alive.
func search(source Source, dead ...string) *Search {
	placed := &clusterpb.Shard{Id: 1, Preferred: "a", Replicas: []string{"a", "b", "c"}}
	s := NewSearch(SearchConfig{
		Shard: 1, Source: source, Placement: placement{placed, dead}, LastPause: 100 * time.Millisecond,
	})
	return &s
}

func believing(leader string) *Beliefs {
	l := NewBeliefs()
	l.Note(1, 1, leader)
	return l
}

// wantNext fails unless the search names these nodes next. Each refuses without naming another.
func wantNext(t *testing.T, s *Search, nodes ...string) {
	t.Helper()
	for i, want := range nodes {
		assert.MustEqual(t, s.Next(), want, "try %d asks", i)
		s.Refused("")
	}
}

func TestSearchAsksTheBelievedLeaderFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := search(believing("c"))
		assert.Equal(t, s.Next(), "c", "asks")
	})
}

func TestSearchWithoutABelief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wantNext(t, search(NewBeliefs()), "a", "c", "a", "b", "c", "a")
		wantNext(t, search(NewBeliefs(), "a"), "b", "c", "b", "c") // the dead node is not asked while two others live
		wantNext(t, search(NewBeliefs(), "a", "c"), "b")
		none := NewSearch(SearchConfig{Source: NewBeliefs(), Placement: placement{}})
		wantNext(t, &none, "", "")
	})
}

func TestSearchAsksTheDeadLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := search(NewBeliefs(), "a", "c")
		assert.MustEqual(t, s.Next(), "b", "asks")
		s.Refused("")
		if second := s.Next(); second == "b" {
			t.Error("asks the same node again, though it has not asked the others")
		}
	})
}

// A named leader is asked at once. A node that was named by a named node is asked after a pause, since two nodes may
// name each other.
func TestSearchFollowsANameAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := search(believing("a"))
		s.Next()
		if pause := s.Refused("b"); pause != 0 {
			t.Errorf("pauses for %v before it asks the named node", pause)
		}
		assert.Equal(t, s.Next(), "b", "asks")
		if pause := s.Refused("a"); pause != firstPause {
			t.Errorf("pauses for %v before it asks the second named node", pause)
		}
		assert.Equal(t, s.Next(), "a", "asks")
		if pause := s.Refused("a"); pause == 0 {
			t.Error("does not pause although the node named itself")
		}
	})
}

func TestSearchPausesLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := search(NewBeliefs())
		var pauses []time.Duration
		for range 7 {
			s.Next()
			pauses = append(pauses, s.Refused("")/time.Millisecond)
		}
		if want := []time.Duration{5, 10, 20, 40, 80, 100, 100}; !slices.Equal(pauses, want) {
			t.Errorf("pauses %v ms, want %v", pauses, want)
		}
		s.News()
		s.Next()
		if pause := s.Refused(""); pause != firstPause {
			t.Errorf("pauses for %v after news", pause)
		}
	})
}

// The node that refused may have been elected since.
func TestSearchAsksTheSameNodeAgainAfterNews(t *testing.T) {
	s := search(RaftLeader(func() string { return "b" }))
	wantNext(t, s, "b", "c")
	s.Next()
	assert.MustEqual(t, s.asked, "b", "asks")
	s.Refused("")
	s.News()
	wantNext(t, s, "b")
}

func TestSearchTeachesItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewBeliefs()
		s := search(l)
		s.Next()
		s.Found() // it has not searched
		assert.Equal(t, l.Leader(1), "", "believes in")
		s.Refused("b")
		s.Next()
		if s.Found(); l.Leader(1) != "b" {
			t.Errorf("believes in %q after b answered", l.Leader(1))
		}
		if s.Refused(""); l.Leader(1) != "" {
			t.Errorf("believes in %q after b refused", l.Leader(1))
		}
	})
}

func TestSearchForAnyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := search(believing("a"))
		if got := s.NextReplica("b"); got != "b" {
			t.Errorf("asks %q first, and not the replica here", got)
		}
		s.Refused("")
		if got := s.NextReplica("b"); got == "b" {
			t.Error("asks the same replica again")
		}
		assert.Equal(t, search(believing("b")).NextReplica("d"), "a", "a node without a replica asks")
	})
}

func TestAgainWaitsForThePauseNewsOrTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewBeliefs()
		s := search(l)
		s.Next()
		began := time.Now()
		if err := s.Again(t.Context(), task.ErrNotProposed); err != nil || time.Since(began) != firstPause {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.refused = 10
		s.Next()
		began = time.Now()
		time.AfterFunc(time.Millisecond, func() { l.Note(1, 1, "b") })
		if err := s.Again(t.Context(), task.ErrNotProposed); err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("%v after %v, with news after 1 ms", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("no more time"))
		defer cancel()
		s.refused = 10
		wantNext(t, s, "b")
		s.Next()
		err := s.Again(ctx, &task.NotLeaderError{Shard: 1})
		if !errors.Is(err, task.ErrNotProposed) || fmt.Sprint(err) != "shard 1 has no leader (no more time)" {
			t.Errorf("%v", err)
		}
	})
}

func TestRepeatable(t *testing.T) {
	for err, want := range map[error]bool{
		&task.NotLeaderError{Leader: "a"}:                          true,
		fmt.Errorf("%w: so", task.ErrNotProposed):                  true,
		task.ErrUnknown:                                            false,
		fmt.Errorf("%w: %w", task.ErrUnknown, task.ErrNotProposed): false,
		&task.FieldError{Field: "id", Detail: "is out of bounds"}:  false,
	} {
		assert.Equal(t, Repeatable(err), want, "%v", err)
	}
}
