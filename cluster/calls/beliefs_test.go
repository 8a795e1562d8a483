package calls

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

const forgedTerm = 1 << 62

func TestRaftWinsOverHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewBeliefs()
		l.Note(1, 5, "a")
		if l.Hint(1, forgedTerm, "b") || l.Leader(1) != "a" {
			t.Errorf("a hint made %q the leader", l.Leader(1))
		}
		l.Note(1, 5, "")
		l.Note(1, 6, "")
		if l.Hint(1, 5, "b") || l.Leader(1) != "" {
			t.Errorf("a hint of a former term made %q the leader", l.Leader(1))
		}
		if !l.Hint(1, forgedTerm, "b") || l.Leader(1) != "b" {
			t.Errorf("without a leader from Raft %q is the leader", l.Leader(1))
		}
		l.Note(1, 6, "a")
		assert.Equal(t, l.Leader(1), "a", "the leader although Raft says a")
		if all := l.All(); len(all) != 1 || all[0].Leader != "a" || all[0].Term != 6 {
			t.Errorf("others are told %v", all)
		}
	})
}

// A node without a replica follows hints, until one misleads a call.
func TestHintThatMisledIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewBeliefs()
		l.Hint(1, 5, "a")
		l.Hint(1, forgedTerm, "b")
		if l.Hint(1, 6, "c") || l.Leader(1) != "b" {
			t.Errorf("the higher term of two hints does not win: %q", l.Leader(1))
		}
		_, changed := l.Watch(1)
		l.Doubt(1, "b")
		select {
		case <-changed:
		default:
			t.Error("the watchers were not told")
		}
		if l.Hint(1, forgedTerm, "b") || l.Leader(1) != "" {
			t.Errorf("the hint that was dropped is back: %q", l.Leader(1))
		}
		if !l.Hint(1, 6, "c") || l.Leader(1) != "c" {
			t.Errorf("a hint with a lower term than the dropped one is not believed: %q", l.Leader(1))
		}
		if len(l.All()) != 0 {
			t.Errorf("what gossip said is passed on: %v", l.All())
		}
		time.Sleep(doubtLife) // of the bubble's clock
		if !l.Hint(1, forgedTerm, "b") {
			t.Error("a hint that was dropped is never heard again")
		}
	})
}

// A hint that is not repeated gives way to one with a lower term.
func TestHintsDoNotLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewBeliefs()
		l.Hint(1, forgedTerm, "b")
		time.Sleep(hintLife) // of the bubble's clock
		if !l.Hint(1, 6, "a") || l.Leader(1) != "a" {
			t.Errorf("%q is the leader", l.Leader(1))
		}
	})
}

func TestAnswersWinOverHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewBeliefs()
		l.Hint(1, forgedTerm, "b")
		l.Answered(1, "a")
		assert.Equal(t, l.Leader(1), "a", "the leader")
		l.Doubt(1, "a")
		assert.Equal(t, l.Leader(1), "", "the leader")
	})
}

func TestLastLeaderOfAReplicaThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewBeliefs()
		l.Note(1, 5, "a")
		l.Left(1)
		if l.Leader(1) != "a" || len(l.All()) != 0 {
			t.Errorf("%q is the leader, others are told %v", l.Leader(1), l.All())
		}
		if l.Hint(1, 4, "b") || !l.Hint(1, 6, "c") || l.Leader(1) != "c" {
			t.Errorf("%q is the leader after a hint", l.Leader(1))
		}
		l.Note(1, 7, "b")
		l.Left(1)
		l.Doubt(1, "b")
		assert.Equal(t, l.Leader(1), "", "the leader after a call was misled")
		l.Note(1, 7, "b")
		assert.Equal(t, len(l.All()), 1, "the leader that a new replica knows is not told to others")
	})
}
