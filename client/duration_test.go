package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// TestParseDuration checks that durations are read by the rules of package contract, whose tables list the accepted
// texts.
func TestParseDuration(t *testing.T) {
	if d, err := ParseDuration("1.5d"); err != nil || d != 36*time.Hour {
		t.Errorf("1.5d: %v, %v", d, err)
	}
	if _, err := ParseDuration("P1Y"); !errors.Is(err, contract.ErrCalendar) || !strings.HasPrefix(err.Error(), `"P1Y"`) {
		t.Errorf("P1Y: %v", err)
	}
}

func TestParseInstant(t *testing.T) {
	want := time.Date(2026, 11, 21, 10, 0, 0, 1e6, time.UTC)
	if at, err := ParseInstant("2026-11-21T11:00:00.0001+01:00"); err != nil || !at.Equal(want) || at.Location() != time.UTC {
		t.Errorf("%v, %v, want %v", at, err, want)
	}
	if _, err := ParseInstant("soon"); !errors.Is(err, contract.ErrInstant) || !strings.HasPrefix(err.Error(), `"soon"`) {
		t.Errorf("soon: %v", err)
	}
}
