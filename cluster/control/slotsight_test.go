package control

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// A move of slots that does not go on says since when, why, and whether calls wait for it. Failures of moves that were
// given up count until one arrives.
func TestSlotSights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sights slotSights
		look := func(move *clusterpb.SlotMove) *clusterpb.SlotsWait {
			var shape clusterpb.Shape
			sights.fill(&clusterpb.ControlState{SlotMoves: []*clusterpb.SlotMove{move}}, &shape)
			return shape.SlotsWait[move.Number]
		}
		check := func(what string, got *clusterpb.SlotsWait, still time.Duration, reason string, givenUp uint32, wait bool) {
			t.Helper()
			if got.StillMs != still.Milliseconds() || got.Reason != reason || got.GivenUp != givenUp || got.CallsWait != wait {
				t.Errorf("%s: %v", what, got)
			}
		}
		first := &clusterpb.SlotMove{Number: 7, From: 1, To: 3}
		if look(first) != nil || !sights.begin(first) || sights.begin(first) {
			t.Error("a move begins once")
		}
		time.Sleep(2 * time.Second)
		sights.copied(7, &clusterpb.SlotsProgress{Tasks: 5})
		time.Sleep(10 * time.Second)
		sights.copied(7, &clusterpb.SlotsProgress{Tasks: 5})
		sights.stepped(7, errors.New("no leader"))
		check("it does not go on", look(first), 10*time.Second, "no leader", 0, false)
		sights.copied(7, &clusterpb.SlotsProgress{Tasks: 5, Sealed: true})
		check("it is sealed", look(first), 0, "", 0, true)
		sights.givenUp(first, errors.New("too slow"))
		time.Sleep(time.Second)
		sights.opened(7)
		check("it is given up", look(first), time.Second, "too slow", 1, false)

		again := &clusterpb.SlotMove{Number: 8, From: 1, To: 3, Tries: 1, State: opening}
		sights.begin(again)
		check("another leader has decided on it", look(again), 0, "too slow", 1, true)
		sights.arrived(again)
		third := &clusterpb.SlotMove{Number: 9, From: 1, To: 3}
		sights.begin(third)
		check("a later move", look(third), 0, "", 0, false)
	})
}
