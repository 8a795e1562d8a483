//go:build chaos

package sim

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/flaw"
)

// caught says within how many runs, from seed 0 on, each flaw that is found here must turn a run red. The others are left
// to the sieges.
var caught = map[flaw.Flaw]uint64{
	flaw.ForgottenCancel: 2,
	flaw.DroppedSettle:   2,
	flaw.StaleRead:       4,
	flaw.BlindClock:      4,
}

const flawVariable = "BELFRY_FLAW"

// TestFlawsAreCaught runs this test again in processes that have a flaw: runs that hold without one must not hold.
func TestFlawsAreCaught(t *testing.T) {
	if os.Getenv(flawVariable) != "" {
		t.Skip("this process has a flaw itself")
	}
	for f := range caught {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFlawed$", "-test.v", "-test.count=1")
			cmd.Env = append(os.Environ(), flawVariable+"="+string(f))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "caught") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// TestFlawed fails if the flaw that this process has is not caught.
func TestFlawed(t *testing.T) {
	f := flaw.Flaw(os.Getenv(flawVariable))
	if !f.On() {
		t.Skip("this process has no flaw")
	}
	for seed := range caught[f] {
		if r := play(t, Draw(seed)); !r.OK() {
			t.Logf("caught by seed %d: %s", seed, strings.Join(r.breaches(), "; "))
			return
		}
	}
	t.Errorf("%s: %d runs hold", f, caught[f])
}

// breaches names what does not hold.
func (r *Result) breaches() []string {
	var all []string
	if len(r.Problems) > 0 {
		all = append(all, r.Problems[0])
	}
	for _, f := range r.Verdict.Findings {
		if f.Broken() {
			all = append(all, f.Invariant+", "+f.Promise)
		}
	}
	return all
}
