//go:build !chaos

package flaw

import (
	"fmt"
	"os"
)

// Check returns an error if BELFRY_FLAW asks this process for a flaw, because this build has none.
func Check() error {
	if name := os.Getenv(variable); name != "" {
		return fmt.Errorf("%s=%s: this build has no flaws; one with -tags chaos can have", variable, name)
	}
	return nil
}
