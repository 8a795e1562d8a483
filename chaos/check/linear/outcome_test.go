package linear

import (
	"testing"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
)

// The check is exercised only if an id has several steps to order, and steps of some id overlap.
func TestOutcomes(t *testing.T) {
	read := func(id string, start, end history.Instant) history.Call {
		return history.Call{Op: int64(start), Kind: history.Get, ID: id, Node: "node-1", Start: start, End: end,
			Outcome: history.Failed, Answer: history.Answer{Status: 404}}
	}
	for _, tt := range []struct {
		name  string
		calls []history.Call
		want  check.Outcome
	}{
		{"nothing", nil, check.NotExercised},
		{"one call of an id", []history.Call{read("a", 1, 5), read("b", 2, 6)}, check.NotExercised},
		{"one call after the other", []history.Call{read("a", 1, 5), read("a", 7, 9)}, check.NotExercised},
		{"calls at once", []history.Call{read("a", 1, 5), read("a", 3, 9)}, check.Held},
	} {
		f := Check(&history.History{Calls: tt.calls}, Limits{}).Finding
		if f.Outcome() != tt.want {
			t.Errorf("%s: %s, want %s: %v", tt.name, f.Outcome(), tt.want, f.Observed)
		}
	}
}
