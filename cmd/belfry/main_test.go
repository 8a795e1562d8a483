package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belfryhq/belfry/cmd/belfry/internal/contexts"
)

// TestMain keeps the contexts of the user out of the tests.
func TestMain(m *testing.M) {
	if err := os.Setenv(contexts.PathVariable, filepath.Join(os.TempDir(), "belfry-no-such-contexts.yaml")); err != nil {
		panic(err)
	}
	m.Run()
}
