package workload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/internal/assert"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// TestSeedDecidesTheBulk checks that the same seed makes the same batches.
func TestSeedDecidesTheBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := func(seed uint64) string {
			l, _ := newLoad(t, nil, Config{Seed: seed, BulkLines: 50})
			var lines []string
			for n := range uint64(8) {
				for _, item := range l.bulkItems(newRand(n), n) {
					lines = append(lines, item.What.ID+" "+string(item.What.Kind))
				}
			}
			return strings.Join(lines, "\n")
		}
		one := plan(1)
		assert.Equal(t, one, plan(1), "the same seed makes two bulks")
		if one == plan(2) {
			t.Error("two seeds make the same")
		}
		assert.Contains(t, one, " cancel", "nothing is cancelled")
	})
}

// TestBulkRepeatsWhatWasNotAnswered checks that lines without a final answer are sent again with the same keys, and
// that the other lines are not.
func TestBulkRepeatsWhatWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := map[string]int{}
		refuse := true
		l, rec := newLoad(t, func(w http.ResponseWriter, r *http.Request) {
			for lines := bufio.NewScanner(r.Body); lines.Scan(); {
				var in struct{ ID, Key string }
				assert.Equal(t, json.Unmarshal(lines.Bytes(), &in), nil)
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
	})
}

// TestLines checks that operations of every kind in the batches of scripts can be lines.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLoad(t, nil, Config{})
		for _, op := range []load.Operation{
			l.player.Schedule("a", load.Task{Delay: time.Second}), l.player.Touch("a", time.Second, nil),
			l.player.Touch("a", time.Second, &load.Task{Delay: time.Second}), l.player.Cancel("a"), l.player.Fire("a"),
		} {
			l.caller.line(op) // panics on a kind that cannot be a line
		}
	})
}

// TestLinesThatNeverWentOut checks that the second thousand lines of a batch have failed for certain if the node died
// after the first.
func TestLinesThatNeverWentOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var end func()
		l, rec, listener := newLoadOn(t, func(w http.ResponseWriter, r *http.Request) {
			end() // no server takes another request
			w.Header().Set("Connection", "close")
			for lines := bufio.NewScanner(r.Body); lines.Scan(); {
				var in struct{ ID string }
				assert.Equal(t, json.Unmarshal(lines.Bytes(), &in), nil)
				_, _ = fmt.Fprintf(w, `{"id":%q,"status":201,"revision":5}`+"\n", in.ID)
			}
		}, Config{})
		end = func() { _ = listener.Close() }
		ops := make([]load.Operation, 1500)
		for i := range ops {
			ops[i] = l.player.Schedule(fmt.Sprint("a", i), load.Task{Delay: time.Second})
		}
		l.caller.batch(t.Context(), 0, 5*time.Second, ops)
		got := map[history.Outcome]int{}
		for _, c := range rec.History().Calls {
			got[c.Outcome]++
			if c.Answer.Misjudged {
				t.Fatalf("%+v", c)
			}
		}
		if got[history.OK] != 1000 || got[history.Failed] != 500 {
			t.Error(got)
		}
	})
}
