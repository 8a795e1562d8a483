package workload

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// TestProbesOutlastAnOutage checks that all parts of the slots are probed, even if an outage outlasts the
// repeats of a call. It also checks that every task that an unanswered call may have scheduled is cancelled.
func TestProbesOutlastAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var puts atomic.Int64
		l, rec := newLoad(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && puts.Add(1) <= 3 {
				w.WriteHeader(http.StatusGatewayTimeout)
				return
			}
			_, _ = fmt.Fprintf(w, `{"revision":4,"shard":%d,"outcome":"cancelled"}`, puts.Load()%2+1)
		}, Config{RetryFor: time.Nanosecond})
		const parts = 2 * probeIDs
		ids, tried, err := l.placeProbes(t.Context(), parts)
		if err != nil || len(ids) != parts || len(tried) == parts {
			t.Fatalf("%v after %v, %v", ids, tried, err)
		}
		for i, id := range ids {
			if part := int(history.SlotOf(id)) * parts / history.Slots; part != i {
				t.Errorf("%s is in part %d of the slots, not %d", id, part, i)
			}
		}
		l.removeProbes(t.Context(), tried)
		h := rec.History()
		open, cancelled := map[string]bool{}, map[string]bool{}
		for _, c := range h.Calls {
			open[c.ID] = open[c.ID] || c.Outcome == history.Unknown
			cancelled[c.ID] = cancelled[c.ID] || c.Kind == history.Cancel
		}
		for id := range open {
			if !cancelled[id] {
				t.Errorf("%s is left behind", id)
			}
		}
		if !open[tried[0]] {
			t.Error("there was no outage")
		}
	})
}

func TestRefusedProbesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLoad(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, Config{})
		if err := l.Probe(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "placing") {
			t.Error(err)
		}
	})
}
