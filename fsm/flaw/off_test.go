//go:build !chaos

package flaw

import (
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// A build without the tag refuses to start with a flaw, so that no test runs in the belief that it has one.
func TestCheckRefusesFlaws(t *testing.T) {
	assert.Equal(t, Check(), nil, "asked for none")
	t.Setenv(variable, "stale-read")
	assert.Error(t, Check(), "asked for a flaw: no error")
}
