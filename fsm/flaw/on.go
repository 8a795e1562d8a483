//go:build chaos

package flaw

import (
	"fmt"
	"os"
	"slices"
)

// seeded is set before main and stays.
var seeded = Flaw(os.Getenv(variable))

// On reports whether this process has the flaw.
func (f Flaw) On() bool { return f == seeded }

// Check returns an error if this process is asked for a flaw that does not exist.
func Check() error {
	if seeded != "" && !slices.Contains(All(), seeded) {
		return fmt.Errorf("%s=%s: there is no such flaw, only %s", variable, seeded, All())
	}
	return nil
}
