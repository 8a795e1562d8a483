package workload

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/chaos/history"
)

// A forger settles in its own queue, and records the answer to each of its receipts.
func TestForge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []string // queues and receipts
		l, rec := newLoad(t, func(w http.ResponseWriter, r *http.Request) {
			var asked map[string][]any
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			var results []string
			for _, receipts := range asked {
				for _, receipt := range receipts {
					tried = append(tried, r.URL.Path+" "+fmt.Sprint(receipt))
					results = append(results, `{"status":404,"problem":{"status":404}}`)
				}
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(results, ","))
		}, Config{Prefix: "r1-"})
		raw := slices.Concat(make([]byte, 17), []byte{3, 1, 0, 7}, []byte("r1-pull"), []byte("r1-5"))
		seen := sight{"r1-pull", base64.RawURLEncoding.EncodeToString(raw)}
		l.forge(t.Context(), rand.New(rand.NewPCG(1, 1)), seen)
		if len(tried) != 2+guesses || len(slices.Compact(slices.Sorted(slices.Values(tried)))) != len(tried) {
			t.Errorf("%q", tried)
		}
		for _, path := range tried {
			if !strings.HasPrefix(path, "/v1/queues/r1-forger/") {
				t.Error(path)
			}
		}
		trials := rec.History().Trials
		for _, trial := range trials {
			if trial.Ask != history.AskForged || trial.Status != 404 || trial.Node != "node-1" {
				t.Errorf("%+v", trial)
			}
		}
		if len(trials) != len(tried) {
			t.Errorf("%d trials of %d receipts", len(trials), len(tried))
		}
	})
}
