package memory

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	for _, text := range []string{"much", "-1", "10MiB", "100%", "1"} {
		if l, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
	find := func(text string) Allowance {
		t.Helper()
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		found, err := l.Find()
		if err != nil {
			t.Skip(err) // the system does not report its memory
		}
		return found
	}
	if got := find("2GiB"); got.Bytes != 2<<30 {
		t.Errorf("2GiB: %+v", got)
	}
	if got := find("0"); got.Bytes != 0 {
		t.Errorf("0: %+v", got)
	}
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	half, all := find("50%"), find("")
	if ratio := float64(all.Bytes) / float64(half.Bytes); ratio < 1.49 || ratio > 1.51 {
		t.Errorf("half of the memory: %+v, by default: %+v", half, all)
	}
	if !strings.HasPrefix(all.From, "75% of the ") {
		t.Errorf("from %q", all.From)
	}
	debug.SetMemoryLimit(3 << 30)
	if got := find(""); got.Bytes != 3<<30 || got.From != "GOMEMLIMIT" {
		t.Errorf("with a limit of the runtime's: %+v", got)
	}
	if got := find("50%"); got != half {
		t.Errorf("a part, with a limit of the runtime's: %+v", got)
	}
}
