package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/workload"
)

// ErrBusy means that a fault cannot strike at the moment: another fault holds its target, or there is no target. The
// fault did nothing and recorded nothing.
var ErrBusy = errors.New("another fault holds what this one would strike")

// SurvivalError means that a node runs on after a fault that must end it. That is a breach of Belfry, not a failure of
// the stand.
type SurvivalError struct{ Reason string }

func (e *SurvivalError) Error() string { return e.Reason }

// Kinds returns all kinds of faults in a fixed order, whether or not a stand supports them.
func Kinds() []Kind {
	return slices.Concat(processKinds(), networkKinds(), diskKinds(), clockKinds(), gossipKinds(), memoryKinds(),
		receiverKinds(), attackKinds(), upgradeKinds(), shapeKinds())
}

// Kind is a kind of fault.
type Kind struct {
	Name  string // name in histories and reports
	Group string // group that selects the kind: process, network, disk, clock, gossip, memory, receiver,
	// attack, upgrade, shape
	Weight int  // how often it is chosen relative to the others
	Deadly bool // a node that it strikes may rightly end by itself
	Ends   bool // a node that it strikes must end by itself

	// Needs returns an error about a requirement that the stand does not meet; nil: the kind can strike. A nil Needs
	// requires nothing.
	Needs func(s *stand.Stand) error
	// Strike strikes, holds for a while, mends, and records all of that. It also mends if ctx ends meanwhile. It returns
	// ErrBusy if a node is not available at the moment, a SurvivalError if a node runs on after a fault that must end
	// it, and any other error if the stand itself failed.
	Strike func(ctx context.Context, on Target) error
}

// Target is the target of a fault. Every choice comes from Rand, so that a seed makes the same choices again.
type Target struct {
	Stand    *stand.Stand
	Recorder *history.Recorder
	Rand     *rand.Rand
	Hold     time.Duration // approximate duration of the fault
	Receiver *workload.Receiver
	Shard    uint32 // shard that is struck, or whose leader is; 0: Rand chooses
	Node     string // node that is struck, for kinds that strike any one node; empty: Rand chooses
}

// Wait returns true after d, or false as soon as the context ends.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
