package view

import (
	"encoding/json"
	"testing"
	"time"
)

// TestInstants checks the form of instants in answers: with milliseconds, in UTC, rounded up.
func TestInstants(t *testing.T) {
	for want, at := range map[string]Instant{
		`"2026-11-21T10:00:00.000Z"`: InstantOf(1795255200000),
		`"2026-11-21T10:00:00.500Z"`: {time.Date(2026, 11, 21, 11, 0, 0, 5e8, time.FixedZone("", 3600))},
		`"2026-11-21T10:00:00.001Z"`: {time.Date(2026, 11, 21, 10, 0, 0, 1, time.UTC)},
	} {
		text, err := json.Marshal(at)
		if err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
		var read Instant
		if err := json.Unmarshal(text, &read); err != nil || read.UnixMilli() != at.Add(time.Millisecond-1).UnixMilli() {
			t.Errorf("%s was read as %v, %v", text, read, err)
		}
	}
	if OptionalInstant(0) != nil || !OptionalInstant(1).Equal(time.UnixMilli(1)) {
		t.Error("0 stands for no instant")
	}
}

// TestSlotListText checks the text of slots: ranges with both of their ends, and single slots.
func TestSlotListText(t *testing.T) {
	for want, list := range map[string]SlotList{
		"": nil, "7": {{7, 8}}, "0-511,1024,2048-2049": {{0, 512}, {1024, 1025}, {2048, 2050}},
	} {
		if got := list.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
