package series_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/series"
)

func TestEveryFieldHasItsPlace(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	got := series.SpecOf(&fsmpb.Repeat{
		Cron: []string{"0 9 * * *"}, EveryMs: 1500, AnchorMs: ms(0), TimeZone: "Europe/Berlin",
		StartMs: ms(1), EndMs: ms(2), Count: 3, Except: []string{"2026-12-25"}, JitterMs: 4,
	})
	want := repeat.Spec{
		Cron: []string{"0 9 * * *"}, Every: 1500 * time.Millisecond, Anchor: time.UnixMilli(0), TimeZone: "Europe/Berlin",
		Start: time.UnixMilli(1), End: time.UnixMilli(2), Count: 3, Except: []string{"2026-12-25"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := series.SpecOf(&fsmpb.Repeat{}); !reflect.DeepEqual(got, repeat.Spec{}) {
		t.Errorf("absent fields gave %+v", got)
	}
}

func TestWrongRule(t *testing.T) {
	var field *repeat.FieldError
	if _, err := series.RuleOf(&fsmpb.Repeat{EveryMs: 99}); !errors.As(err, &field) || field.Field != "every" {
		t.Errorf("the error is %v", err)
	}
	if rule, err := series.RuleOf(&fsmpb.Repeat{EveryMs: 100, Count: 7}); err != nil || rule.Count() != 7 {
		t.Errorf("a right rule: %v", err)
	}
}
