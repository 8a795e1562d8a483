package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/assert"
)

func lost(n int) *history.History {
	h := &history.History{}
	for i := range n {
		at := history.Instant(i+1) * history.Instant(time.Second)
		h.Calls = append(h.Calls, history.Call{
			Op: int64(i + 1), Kind: history.Schedule, ID: "order", Node: "node-1", Start: at, End: at + 1,
			Outcome: history.OK, Answer: history.Answer{Revision: uint64(i + 1)},
		})
	}
	return h
}

func TestReport(t *testing.T) {
	v := Of("a bad day", lost(1), check.DefaultLimits())
	report := v.String()
	for _, want := range []string{
		"a bad day: 1 calls, 0 arrivals", "FAIL   1  nothing acknowledged is lost", "1 lost",
		"1 order: operation 1 was acknowledged", "0.0000  operation 1: schedule via node-1", "none   2  nothing is early: not exercised, no arrivals of tasks",
	} {
		assert.Contains(t, report, want)
	}
	if v.OK() {
		t.Error("a history with a breach is called OK")
	}
}

func TestGoodReport(t *testing.T) {
	v := Of("a quiet day", &history.History{}, check.DefaultLimits())
	text := v.String()
	if !v.OK() || strings.Contains(text, "FAIL") {
		t.Errorf("%s", v)
	}
	// An empty history exercises no invariant, so the report calls none held.
	if strings.Contains(text, "\nok") || strings.Count(text, ": not exercised, no ") != len(v.Findings) ||
		!strings.Contains(text, "10  repeating tasks neither skip nor double: not exercised, no occurrences") {
		t.Errorf("%s", v)
	}
}

func TestManyBreachesAreCutShort(t *testing.T) {
	h := lost(9)
	for i := range h.Calls {
		h.Calls[i].ID += strings.Repeat("x", i) // give each call its own task
	}
	assert.Contains(t, Of("a worse day", h, check.DefaultLimits()).String(), "… and 4 more")
}
