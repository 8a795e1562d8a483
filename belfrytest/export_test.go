package belfrytest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/memnet"
)

// stragglers is how long a goroutine of the node may outlive it, waiting for an answer.
const stragglers = time.Minute

// Simulate runs a test of a Server in a bubble of testing/synctest. The Server, its client and its receivers are on a
// network in memory, and the machine's time goes on only when all of them wait.
func Simulate(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { <-time.After(stragglers) }) // last
		test(t, start(t, memnet.New()))
	})
}
