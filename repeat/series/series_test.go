package series_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
)

func TestEveryFieldHasItsPlace(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	got, err := series.SpecOf(&fsmpb.Repeat{
		Cron: []string{"0 9 * * *"}, EveryMs: 1500, AnchorMs: ms(0), TimeZone: "Europe/Berlin",
		StartMs: ms(1), EndMs: ms(2), Count: 3, Except: []string{"2026-12-25"}, JitterMs: 4,
	}, nil)
	assert.NoError(t, err)
	want := repeat.Spec{
		Cron: []string{"0 9 * * *"}, Every: 1500 * time.Millisecond, Anchor: time.UnixMilli(0), TimeZone: "Europe/Berlin",
		Start: time.UnixMilli(1), End: time.UnixMilli(2), Count: 3, Except: []string{"2026-12-25"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, err := series.SpecOf(&fsmpb.Repeat{}, nil); err != nil || !reflect.DeepEqual(got, repeat.Spec{}) {
		t.Errorf("absent fields gave %+v, %v", got, err)
	}
}

func TestWrongRule(t *testing.T) {
	var field *repeat.FieldError
	if _, err := series.RuleOf(&fsmpb.Repeat{EveryMs: 99}, nil); !errors.As(err, &field) || field.Field != "every" {
		t.Errorf("the error is %v", err)
	}
	if rule, err := series.RuleOf(&fsmpb.Repeat{EveryMs: 100, Count: 7}, nil); err != nil || rule.Count() != 7 {
		t.Errorf("a right rule: %v", err)
	}
}

func TestCalendar(t *testing.T) {
	stored := &fsmpb.Calendar{
		TimeZone: "Asia/Tokyo", Closed: []string{"2026-12-25"}, Hours: []*fsmpb.CalendarHours{{Days: "FRI", Daily: []string{"09:00-17:00"}}},
	}
	want := calendar.Spec{TimeZone: "Asia/Tokyo", Closed: []string{"2026-12-25"},
		Hours: []calendar.Hours{{Days: "FRI", Daily: []string{"09:00-17:00"}}}}
	if got := series.CalendarOf(stored); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	c, err := calendar.New(want)
	assert.NoError(t, err)
	rule, err := series.RuleOf(&fsmpb.Repeat{Cron: []string{"0 * * * *"}, Calendar: "work"}, c)
	assert.NoError(t, err)
	// The Friday before Christmas, and the one behind it.
	o, ok := rule.Next(time.Date(2026, 12, 18, 7, 30, 0, 0, time.UTC))
	if !ok || !o.At.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) || o.Excluded[0].By != "calendar work" {
		t.Errorf("%+v, %v", o, ok)
	}
	var field *repeat.FieldError
	_, err = series.RuleOf(&fsmpb.Repeat{Cron: []string{"0 * * * *"}, Calendar: "work"}, nil)
	if !errors.As(err, &field) || field.Field != "calendar" {
		t.Errorf("without its calendar: %v", err)
	}
}
