//go:build !chaos

package flaw

// On tells whether this process has the flaw.
func (Flaw) On() bool { return false }
