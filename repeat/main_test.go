package repeat_test

import (
	"os"
	"testing"

	"github.com/belfryhq/belfry/internal/gated"
)

func TestMain(m *testing.M) {
	gated.Rounds(30, 2000)
	os.Exit(m.Run())
}
