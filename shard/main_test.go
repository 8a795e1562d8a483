package shard

import (
	"os"
	"testing"

	"github.com/belfryhq/belfry/internal/gated"
)

func TestMain(m *testing.M) {
	gated.Rounds(30, 1000)
	os.Exit(m.Run())
}
