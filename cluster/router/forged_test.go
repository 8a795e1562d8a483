package router

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cluster/calls"
)

const forgedTerm = 1 << 62

// A forged hint costs one call a retry. Later calls go to the right node.
func TestForgedHintCostsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, liar := range []string{"c", "nobody"} {
			w := newWorld()
			w.leader[2], w.down["nobody"] = "b", true
			r := w.at("d")
			r.cfg.Leaders = calls.NewBeliefs()
			r.cfg.Leaders.Hint(2, 5, "b")
			r.cfg.Leaders.Hint(2, forgedTerm, liar)
			for i := range 20 {
				r.cfg.Leaders.Hint(2, forgedTerm, liar) // the hint is repeated
				if reply := r.Do(t.Context(), cmds(id(2, i)))[0]; reply.Err != nil {
					t.Fatal(reply.Err)
				}
				if _, err := r.Get(t.Context(), "", id(2, i), false); err != nil {
					t.Fatal(fmt.Errorf("a read: %w", err))
				}
			}
			if retries := r.counts()[2]; retries < 1 || retries > 3 {
				t.Errorf("%s: %v retries", liar, retries)
			}
		}
	})
}
