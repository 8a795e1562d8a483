package gated

import (
	"fmt"
	"slices"
	"testing"
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
	if len(came) != len(cases) {
		t.Errorf("only %v come", came)
	}
	t.Setenv(Variable, "long")
	if all := Sample(t, 2, cases...); !slices.Equal(all, cases) {
		t.Errorf("the long form has %v", all)
	}
}
