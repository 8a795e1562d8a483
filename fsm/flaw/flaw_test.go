package flaw

import "testing"

// A build without the tag has no flaw, whatever is asked of it; one with it has none that is not asked for.
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
