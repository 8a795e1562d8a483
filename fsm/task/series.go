package task

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// MissedAfter is how late an occurrence may come due and still run whatever its schedule's misfire policy says. A
// failover takes less.
const MissedAfter = 5 * time.Second

// seriesMark ends the id of a schedule's record, and separates a schedule's id from the number of an occurrence, and a
// task's id from the end of a follow-up's. No caller can give a task an id with it.
const seriesMark = "@"

// SeriesID returns the id under which the store keeps the schedule with this id.
func SeriesID(id string) string { return id + seriesMark }

// SplitSeries returns the id of a schedule whose record has this id. ok is false for the id of a task.
func SplitSeries(recordID string) (id string, ok bool) {
	return strings.CutSuffix(recordID, seriesMark)
}

// OccurrenceID returns the id of the task that is an occurrence of a schedule. Numbers begin with 1.
func OccurrenceID(id string, number uint64) string {
	return id + seriesMark + strconv.FormatUint(number, 10)
}

// SplitOccurrence returns the schedule and the number of the occurrence that a task is. ok is false for another task.
func SplitOccurrence(taskID string) (id string, number uint64, ok bool) {
	id, digits, found := strings.Cut(taskID, seriesMark)
	if !found || strings.HasPrefix(digits, "0") || strings.HasPrefix(digits, "+") {
		return "", 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return id, number, err == nil
}

// ScheduledMs returns the instant, in Unix milliseconds, that the rule of a schedule names for an occurrence. A jitter
// or a backfill makes the occurrence due at another one.
func ScheduledMs(t *fsmpb.Task) int64 { return cmp.Or(t.GetSpec().GetScheduledMs(), t.GetFireAtMs()) }

// CheckTaskID checks the id of a task that a call reads or changes: a name, or the id of an occurrence or a follow-up.
// field is the caller's name for the value.
func CheckTaskID(field, id string) *FieldError {
	id, _ = SplitFollowUp(id)
	if name, _, ok := SplitOccurrence(id); ok {
		id = name
	}
	return CheckName(field, id)
}

// slotName returns the part of an id that is hashed: all occurrences of a schedule, its record, and all follow-ups
// share a slot.
func slotName(id string) string {
	if at := strings.IndexByte(id, seriesMark[0]); at >= 0 {
		return id[:at]
	}
	return id
}

// The most occurrences of one schedule that are under way, that wait, and that are remembered after their end.
const (
	MaxLiveOccurrences   = 256
	MaxQueuedOccurrences = 1000
	MaxPastOccurrences   = 10
)
