package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLongLineIsNotSent checks that the client refuses a line at which the service would end a batch, and sends the
// other lines.
func TestLongLineIsNotSent(t *testing.T) {
	long := Task{ID: "long", Delay: time.Hour, Payload: json.RawMessage(`"` + strings.Repeat("x", longestLine) + `"`)}
	check := func(err error) {
		t.Helper()
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != http.StatusRequestEntityTooLarge || refused.Limit != "524288 bytes" ||
			errors.Is(err, ErrUnknown) {
			t.Errorf("it fails with %v", err)
		}
	}
	c, s := start(t, Config{}, answer(200, `{"id":"a","status":201,"revision":7}`+"\n"+`{"id":"b","status":201,"revision":8}`+"\n"))
	_, err := c.Schedule(t.Context(), long)
	check(err)
	_, err = c.Touch(t.Context(), "t", Touch{OrSchedule: &long})
	check(err)
	if n := len(s.got); n != 0 {
		t.Fatalf("%d requests were made", n)
	}
	var results []Result
	for r := range c.ScheduleMany(t.Context(), slices.Values([]Task{{ID: "a", Delay: time.Hour}, long, {ID: "b", Delay: time.Hour}})) {
		results = append(results, r)
	}
	if len(results) != 3 || results[0].Err != nil || results[2].Err != nil || results[2].Revision != 8 {
		t.Fatalf("%+v", results)
	}
	check(results[1].Err)
}
