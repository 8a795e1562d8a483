//go:build !chaos

package flaw

import "testing"

// A build without the tag refuses to start with a flaw, so that no test runs in the belief that it has one.
func TestCheckRefusesFlaws(t *testing.T) {
	if err := Check(); err != nil {
		t.Errorf("asked for none: %v", err)
	}
	t.Setenv(variable, "stale-read")
	if Check() == nil {
		t.Error("asked for a flaw: no error")
	}
}
