package workload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/chaos/history"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// The same seed makes the same batches, whatever became of those before.
func TestSeedDecidesTheBulk(t *testing.T) {
	plan := func(seed uint64) string {
		l, _ := newLoad(t, nil, Config{Seed: seed, BulkLines: 50})
		var lines []string
		for n := range uint64(8) {
			for _, it := range l.bulkItems(newRand(n), n) {
				lines = append(lines, it.what.ID+" "+string(it.what.Kind))
			}
		}
		return strings.Join(lines, "\n")
	}
	one := plan(1)
	if one != plan(1) {
		t.Error("the same seed makes two bulks")
	}
	if one == plan(2) {
		t.Error("two seeds make the same")
	}
	if !strings.Contains(one, " cancel") {
		t.Error("nothing is cancelled")
	}
}

// Lines without a final answer are sent again, with the same keys, and the others are not.
func TestBulkRepeatsWhatWasNotAnswered(t *testing.T) {
	keys := map[string]int{}
	refuse := true
	l, rec := newLoad(t, func(w http.ResponseWriter, r *http.Request) {
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			var in struct{ ID, Key string }
			if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
				t.Error(err)
			}
			keys[in.Key]++
			status, problem := 201, ""
			if refuse && strings.HasSuffix(in.ID, "1") {
				status, problem = 503, `,"problem":{"status":503,"committed":"no"}`
			}
			_, _ = fmt.Fprintf(w, `{"id":%q,"status":%d,"revision":5%s}`+"\n", in.ID, status, problem)
		}
		refuse = false
	}, Config{BulkLines: 20})
	l.bulkBatch(t.Context(), 0)
	h := rec.History()
	repeated := 0
	for _, n := range keys {
		repeated += n - 1
	}
	failed := 0
	for _, c := range h.Calls {
		if c.Outcome == history.Failed {
			failed++
		} else if c.Outcome != history.OK || c.Answer.Revision != 5 || !c.Batch {
			t.Errorf("%+v", c)
		}
	}
	if repeated == 0 || repeated != failed || len(keys)+repeated != len(h.Calls) {
		t.Errorf("%d lines, %d of them repeated, %d failed, %d calls recorded", len(keys), repeated, failed, len(h.Calls))
	}
}

// A batch of a script has operations of every kind, some about ids of earlier lines.
func TestBatchOfAllKinds(t *testing.T) {
	l, _ := newLoad(t, nil, Config{})
	rng := newRand(1)
	kinds, again := map[history.Kind]int{}, 0
	made := map[string]bool{}
	for i := range 200 {
		op := l.batchLine(rng, "t", i)
		kinds[op.what.Kind]++
		if made[op.what.ID] {
			again++
		}
		made[op.what.ID] = true
		if op.line == nil || op.send == nil {
			t.Errorf("%s cannot be sent both ways", op.what.Kind)
		}
	}
	for _, kind := range []history.Kind{history.Schedule, history.Touch, history.Cancel, history.Fire} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among %v", kind, kinds)
		}
	}
	if again == 0 {
		t.Error("no line is about an earlier one's id")
	}
}
