package fsm

import (
	"os"
	"testing"

	"github.com/belfryhq/belfry/internal/gated"
)

func TestMain(m *testing.M) {
	gated.Rounds(40, 5000)
	os.Exit(m.Run())
}
