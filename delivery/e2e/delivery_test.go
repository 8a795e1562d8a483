package e2e_test

import (
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/gated"
)

type scenario = func(*testing.T, *stage)

// TestDelivery plays each scenario on a cluster of its own, in simulated time.
func TestDelivery(t *testing.T) {
	all := quiet()
	maps.Copy(all, loud())
	maps.Copy(all, deadly())
	for name, play := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { play(t, simulate(t)) })
		})
	}
}

// TestDeliveryByProcesses plays every scenario on one cluster of processes: scenarios that mostly wait run side by side,
// the others one after another.
func TestDeliveryByProcesses(t *testing.T) {
	gated.Need(t, gated.Timed)
	gated.Need(t, gated.Long)
	localtest.Need(t)
	as := alone
	if gated.Has(gated.Long) {
		as = long
	}
	s := setStage(t, as)
	inTurn := func(scenarios map[string]scenario) {
		for name, play := range scenarios {
			t.Run(name, func(t *testing.T) { play(t, s) })
		}
	}
	inTurn(loud())
	t.Run("side by side", func(t *testing.T) {
		var all sync.WaitGroup // unlike t.Parallel, it runs more tests at once than there are cores
		defer all.Wait()
		for name, play := range quiet() {
			all.Go(func() { t.Run(name, func(t *testing.T) { play(t, s) }) })
		}
	})
	inTurn(deadly())
}

// loud returns the scenarios that measure how much others disturb them.
func loud() map[string]scenario {
	return map[string]scenario{
		"hostile receivers": sufferHostiles,
		"storm":             weatherStorm,
		"storm with jitter": spreadStorm,
		"consumers wait":    consumersWait,
	}
}

// deadly returns the scenarios that kill nodes.
func deadly() map[string]scenario {
	return map[string]scenario{
		"a lease outlives its leader": leaseOutlivesLeader,
		"a crowd of consumers":        crowdWithDeath,
	}
}

// quiet returns the scenarios that need no quiet machine and do not disturb each other.
func quiet() map[string]scenario {
	return map[string]scenario{
		"lease ends":       leaseEnds,
		"nacks":            nacks,
		"extensions":       extensions,
		"releases":         releases,
		"order":            orderOfDue,
		"one in flight":    func(t *testing.T, s *stage) { inFlight(t, s, 1, pick(s, 60, 1000)) },
		"three in flight":  func(t *testing.T, s *stage) { inFlight(t, s, 3, pick(s, 150, 3000)) },
		"100 in flight":    func(t *testing.T, s *stage) { inFlight(t, s, 100, pick(s, 1000, 20_000)) },
		"leases in flight": leasesInFlight,
		"per second":       perSecond,
		"pauses":           pauses,
		"target changes":   targetChanges,
		"deletions":        deletions,
		"counts":           tallies,
		"dead letters":     deadLetters,
		"kept dead":        keptDead,
		"expired":          expired,
		"retry after":      retryAfter,
		"rotation":         rotation,
	}
}
