package gated

import (
	"fmt"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestSample checks that a sample repeats, that others choose other cases, and that all cases come at times and in the
// long form.
func TestSample(t *testing.T) {
	cases := []string{"a", "b", "c", "d", "e"}
	came := map[string]bool{}
	for i := range 50 {
		t.Setenv(SampleVariable, fmt.Sprint(i))
		chosen := Sample(t, 2, cases...)
		if len(chosen) != 2 || !slices.Equal(chosen, Sample(t, 2, cases...)) {
			t.Fatalf("%v", chosen)
		}
		for _, c := range chosen {
			came[c] = true
		}
	}
	assert.Equal(t, len(came), len(cases), "only %v come", came)
	t.Setenv(Variable, "long")
	assert.EqualSlices(t, Sample(t, 2, cases...), cases, "the long form")
}
