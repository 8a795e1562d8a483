//go:build chaos

package flaw

import (
	"fmt"
	"os"
	"slices"
)

// seeded is the flaw of this process. It is set before main and never changes.
var seeded = Flaw(os.Getenv(variable))

// On reports whether this process has the flaw.
func (f Flaw) On() bool { return f == seeded }

// Check returns an error if BELFRY_FLAW names a flaw that does not exist.
func Check() error {
	if seeded != "" && !slices.Contains(All(), seeded) {
		return fmt.Errorf("%s=%s: there is no such flaw, only %s", variable, seeded, All())
	}
	return nil
}
