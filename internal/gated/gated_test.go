package gated

import "testing"

func TestHas(t *testing.T) {
	t.Setenv(Variable, "real, timed")
	if !Has(Real) || !Has(Timed) || Has(Root) || Has(Long) {
		t.Errorf("%v", listed())
	}
	t.Setenv(Variable, "")
	if len(listed()) != 0 {
		t.Errorf("%v", listed())
	}
}

func TestUnknownKindPanics(t *testing.T) {
	t.Setenv(Variable, "reel")
	defer func() {
		if recover() == nil {
			t.Error("a typo skips all tests in silence")
		}
	}()
	Has(Real)
}

func TestNeed(t *testing.T) {
	t.Setenv(Variable, "timed")
	ran := func(kind Kind) (ran bool) {
		t.Run(string(kind), func(t *testing.T) { Need(t, kind); ran = true })
		return ran
	}
	if ran(Real) || !ran(Timed) {
		t.Error("the wrong kind ran")
	}
}
