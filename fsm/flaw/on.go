//go:build chaos

package flaw

import "os"

var seeded = Flaw(os.Getenv("BELFRY_FLAW"))

// On tells whether this process has the flaw.
func (f Flaw) On() bool { return f == seeded }
