//go:build chaos

package fsm

import (
	"math"

	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// flawForgetsCancel reports whether the cancel of this number is answered but not carried out.
func flawForgetsCancel(number uint64) bool { return flaw.ForgottenCancel.Strikes(number) }

// flawDropsSettle reports whether the settle of this number is answered but not carried out.
func flawDropsSettle(number uint64) bool { return flaw.DroppedSettle.Strikes(number) }

// flawForgetsFollowUp reports whether the follow-up of the task that ended with this number is left to a second entry,
// which never comes.
func flawForgetsFollowUp(number uint64) bool { return flaw.LateFollowUp.Strikes(number) }

// flawAltersInstants repeats the first coming instant of a schedule, or drops it if there is another one.
func flawAltersInstants(series *fsmpb.Series) {
	switch {
	case flaw.DoubledInstant.Strikes(series.Ruled):
		series.Next = append(series.Next[:1:1], series.Next...)
	case flaw.SkippedInstant.Strikes(series.Ruled) && len(series.Next) > 1:
		series.Next = series.Next[1:]
	}
}

// flawKeepsScheduled restores a snapshot beside the previous tasks: the scheduled tasks of before stay, even if the
// snapshot contradicts them.
func flawKeepsScheduled(fresh, before *store.Store) {
	if !flaw.DirtyRestore.On() {
		return
	}
	q := &fsmpb.ListQuery{States: []fsmpb.State{fsmpb.State_STATE_SCHEDULED}, Limit: math.MaxUint32}
	for more := true; more; {
		page := before.List(q, task.Slots)
		for _, kept := range page.Tasks {
			keep(fresh, before.Find(kept.Namespace, kept.Id))
		}
		more, q.Slot, q.AfterId = page.More, page.Slot, page.AfterId
	}
}

func keep(fresh *store.Store, t store.Task) {
	namespace, id := t.ID()
	if restored := fresh.Find(namespace, id); restored.Exists() {
		fresh.Change(restored, store.Edit.Drop)
	}
	number := fresh.Number
	fresh.Number = t.Revision()
	fresh.Add(fresh.PlaceOf(namespace, id), namespace, id, nil, t.Content(true), t.FireAtMs())
	fresh.Number = number
}
