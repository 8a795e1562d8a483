package series

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat"
)

// RuleOf returns the rule of a schedule. The jitter is no part of it. The error is that of repeat.New.
func RuleOf(r *fsmpb.Repeat) (*repeat.Rule, error) { return repeat.New(SpecOf(r)) }

// SpecOf returns the unchecked rule of a schedule.
func SpecOf(r *fsmpb.Repeat) repeat.Spec {
	return repeat.Spec{
		Cron: r.Cron, Every: time.Duration(r.EveryMs) * time.Millisecond, Anchor: timeOf(r.AnchorMs),
		TimeZone: r.TimeZone, Start: timeOf(r.StartMs), End: timeOf(r.EndMs), Count: r.Count, Except: r.Except,
	}
}

// timeOf returns an optional instant, or the zero time if it is absent.
func timeOf(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}
