package wheel

import (
	"os"
	"testing"

	"github.com/belfryhq/belfry/internal/gated"
)

func TestMain(m *testing.M) {
	gated.Rounds(40, 10000)
	os.Exit(m.Run())
}
