//go:build chaos

package flaw

import "testing"

// A process without BELFRY_FLAW has no flaw.
func TestNoFlawUnasked(t *testing.T) {
	for _, f := range All() {
		for n := range uint64(1000) {
			if f.On() || f.Strikes(n) {
				t.Fatalf("%s is on", f)
			}
		}
	}
	if err := Check(); err != nil {
		t.Error(err)
	}
}
