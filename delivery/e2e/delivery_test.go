package e2e_test

import (
	"sync"
	"testing"

	"github.com/belfryhq/belfry/deploy/local/localtest"
)

// TestDelivery plays every scenario on one cluster: scenarios that mostly wait run in parallel, the others one after
// another.
func TestDelivery(t *testing.T) {
	localtest.Need(t)
	s := setStage(t)
	play := func(name string, scenario func(*testing.T, *stage)) {
		t.Run(name, func(t *testing.T) { scenario(t, s) })
	}
	play("hostile receivers", sufferHostiles)
	play("storm", weatherStorm)
	play("storm with jitter", spreadStorm)
	play("consumers wait", consumersWait)
	t.Run("side by side", func(t *testing.T) {
		var all sync.WaitGroup // unlike t.Parallel, it runs more tests at once than there are cores
		defer all.Wait()
		for name, scenario := range quiet() {
			all.Go(func() { t.Run(name, func(t *testing.T) { scenario(t, s) }) })
		}
	})
	play("a lease outlives its leader", leaseOutlivesLeader)
	play("a crowd of consumers", crowdWithDeath)
}

// quiet returns the scenarios that need no quiet machine and do not disturb each other.
func quiet() map[string]func(*testing.T, *stage) {
	return map[string]func(*testing.T, *stage){
		"lease ends":       leaseEnds,
		"nacks":            nacks,
		"extensions":       extensions,
		"releases":         releases,
		"order":            orderOfDue,
		"one in flight":    func(t *testing.T, s *stage) { inFlight(t, s, 1, pick(60, 1000)) },
		"three in flight":  func(t *testing.T, s *stage) { inFlight(t, s, 3, pick(150, 3000)) },
		"100 in flight":    func(t *testing.T, s *stage) { inFlight(t, s, 100, pick(1000, 20_000)) },
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
