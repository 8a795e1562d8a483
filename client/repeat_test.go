package client_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
)

// A rule is written as the service takes it: without empty members.
func TestRepeatAsJSON(t *testing.T) {
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for want, rule := range map[string]client.Repeat{
		`{}`: {},
		`{"cron":["@daily"],"time_zone":"Europe/Berlin"}`: {Cron: []string{"@daily"}, TimeZone: "Europe/Berlin"},
		`{"anchor":"2026-11-21T10:00:00Z","count":3,"end":"2026-11-21T10:00:00Z","every":"7d","except":["2026-12-25"],` +
			`"start":"2026-11-21T10:00:00Z"}`: {Every: 7 * 24 * time.Hour, Anchor: start, Start: start, End: start, Count: 3,
			Except: []string{"2026-12-25"}},
	} {
		got, err := json.Marshal(rule)
		if err != nil || string(got) != want {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	}
}
