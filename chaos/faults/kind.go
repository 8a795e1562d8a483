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

// ErrBusy says that a fault cannot strike at the moment: another one holds what it would touch, or there is nothing to
// strike. Nothing was done and nothing recorded.
var ErrBusy = errors.New("another fault holds what this one would strike")

// Defiance says that a node did not do what a fault must make it do: a breach of Belfry's, not a failure of the stand.
type Defiance struct{ What string }

func (d *Defiance) Error() string { return d.What }

// Kinds are all kinds of faults, in a fixed order, whether or not a stand is fit for them.
func Kinds() []Kind {
	return slices.Concat(processKinds(), networkKinds(), diskKinds(), clockKinds(), gossipKinds(), memoryKinds(),
		receiverKinds())
}

// Kind is a way of breaking things.
type Kind struct {
	Name   string // as it stands in histories and reports
	Group  string // what selects it: process, network, disk, clock, gossip, memory, receiver
	Weight int    // how often it is chosen beside the others
	Deadly bool   // a node that it strikes may rightly end by itself
	Ends   bool   // a node that it strikes must end by itself

	// Needs says what it needs that the stand does not have; nil: it can strike there. A nil Needs needs nothing.
	Needs func(s *stand.Stand) error
	// Strike strikes, holds for a while, mends, and records all of it. It mends also when ctx ends meanwhile. Its error
	// says that the stand itself failed; a node that cannot be had at the moment is ErrBusy, and one that did not do what
	// it must a Defiance.
	Strike func(ctx context.Context, on Target) error
}

// Target is what a fault works on. Every choice comes from Rand, so that a seed makes the same ones again.
type Target struct {
	Stand    *stand.Stand
	Recorder *history.Recorder
	Rand     *rand.Rand
	Hold     time.Duration // how long it lasts, about
	Receiver *workload.Receiver
	Shard    uint32 // whose leader is meant, by kinds that strike leaders; 0: Rand chooses
}

// Wait returns after d, with false if the context ended first.
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
