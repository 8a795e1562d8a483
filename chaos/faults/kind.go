package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/internal/wait"
)

// ErrBusy means that a fault cannot strike at the moment: another fault holds its target, or there is no target. The
// fault did nothing and recorded nothing.
var ErrBusy = errors.New("another fault holds what this one would strike")

// SurvivalError means that a node runs on after a fault that must end it. That is a breach of Belfry, not a failure of
// the stand.
type SurvivalError struct{ Reason string }

func (e *SurvivalError) Error() string { return e.Reason }

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

// Kind is a kind of fault.
type Kind struct {
	Name string // name in histories and reports
	// Group selects the kind: process, network, disk, clock, gossip, memory, receiver, attack, upgrade, shape.
	Group  string
	Weight int // how often it is chosen relative to the others
	Death  Death

	// Needs returns an error about a requirement that the stand does not meet; nil: the kind can strike. A nil Needs
	// requires nothing.
	Needs func(s *stand.Stand) error

	// claims is the thing that only one fault may strike at a time. Empty: the fault claims its nodes.
	claims string
	nodes  func(s *striking) []string // chooses the nodes; nil: strike does
	strike func(s *striking, nodes []string) error
}

// Death says whether a fault ends the processes of the nodes that it strikes without killing them.
type Death int

// The effects of kinds on the processes of nodes.
const (
	Lives   Death = iota // a node must not end by itself
	MayEnd               // a node may rightly end by itself
	MustEnd              // a node must end by itself
)

// The things that faults claim in place of nodes.
const (
	theClocks   = "all clocks"   // two of three clocks must be right for the nodes to know the time
	theGossip   = "gossip"       // of all nodes
	theReceiver = "receiver"     // it has one mood at a time
	theBuilds   = "the builds"   // two rolling upgrades could never end
	theShape    = "the shape"    // of the cluster: one change is under way at a time
	nothing     = "no exclusion" // the fault combines with all others, or claims nodes by itself
)

// Strike strikes, holds for a while, mends, and records all of that. It also mends if ctx ends meanwhile. It returns
// ErrBusy if a node is not available at the moment, a SurvivalError if a node runs on after a fault that must end it,
// and any other error if the stand itself failed.
func (k Kind) Strike(ctx context.Context, on Target) error {
	s := &striking{Target: on, ctx: ctx, kind: k.Name}
	var nodes []string
	if k.nodes != nil {
		if nodes = k.nodes(s); len(nodes) == 0 {
			return ErrBusy // no leader is known
		}
	}
	if k.claims == theShape {
		// The change goes on after the end of the faults' time: a cluster on its way to another shape is not whole.
		var cancel context.CancelFunc
		s.ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), shapeLimit)
		defer cancel()
	}
	switch k.claims {
	case nothing:
		return k.strike(s, nodes)
	case "":
		release, err := s.claim(nodes)
		if err != nil {
			return err
		}
		defer release()
	default:
		release, ok := s.Stand.Claim(k.claims)
		if !ok {
			return ErrBusy
		}
		defer release()
	}
	return k.strike(s, nodes)
}

// striking is a fault under way.
type striking struct {
	Target
	ctx  context.Context // ends with the time of the faults
	kind string
}

// leader returns the leader of the target's shard, or that of a random shard. It returns none if no leader is known.
func leader(s *striking) []string {
	leaders, err := s.Stand.Leaders(s.ctx)
	if err != nil {
		return nil // no node answers at the moment
	}
	chosen := s.Shard
	if chosen == 0 && len(leaders) > 0 {
		chosen = pick(s.Rand, slices.Sorted(maps.Keys(leaders)))
	}
	if leader, ok := leaders[chosen]; ok {
		return []string{leader}
	}
	return nil
}

// every returns all nodes of the cluster.
func every(s *striking) []string { return s.Stand.Names() }

// one and two return random nodes, the target's node if it has one.
func one(s *striking) []string { return s.some(1) }

func two(s *striking) []string { return s.some(2) }

// some returns n random nodes, or all if there are fewer; the target's node if it has one.
func (s *striking) some(n int) []string {
	if s.Node != "" {
		return []string{s.Node}
	}
	names := s.Stand.Names()
	s.Rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(n, len(names))]
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// upTo draws a duration below most, evenly.
func (s *striking) upTo(most time.Duration) time.Duration {
	return time.Duration(s.Rand.Int64N(int64(most)))
}

// maxStretch is the largest factor by which a fault is prolonged. A longer partition shows other weaknesses, because
// connections and leases end in it.
const maxStretch = 3

func (s *striking) stretched() time.Duration {
	return s.Hold * time.Duration(1+s.Rand.IntN(maxStretch))
}

// claim takes the nodes for this fault. All of them must run: a node that is down is another fault's, or has died.
func (s *striking) claim(nodes []string) (release func(), err error) {
	release, ok := s.Stand.Claim(nodes...)
	if !ok {
		return nil, ErrBusy
	}
	for _, n := range nodes {
		if !s.Stand.Runs(n) {
			release()
			return nil, ErrBusy
		}
	}
	return release, nil
}

// begin records that the fault strikes nodes, and returns its number. set sets further fields of the record; nil: none.
func (s *striking) begin(nodes []string, set func(*history.Fault), format string, args ...any) int {
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			args[i] = d.Round(time.Millisecond)
		}
	}
	f := history.Fault{Kind: s.kind, Nodes: nodes, Detail: fmt.Sprintf(format, args...)}
	if len(nodes) > 0 {
		f.Shards = s.Stand.LedBy(s.ctx, nodes...)
	}
	if set != nil {
		set(&f)
	}
	return s.Recorder.Strike(f)
}

// restarts marks a fault that ends the processes of its nodes and starts them again in the end.
func restarts(f *history.Fault) { f.Restarted = true }

// hold waits for a while, and then records that the mending of a fault begins.
func (s *striking) hold(fault int, d time.Duration) {
	wait.For(s.ctx, d)
	s.Recorder.Mending(fault)
}

// mended records that a fault is mended, unless its mending returned an error.
func (s *striking) mended(fault int, err error) error {
	if err == nil {
		s.Recorder.Mended(fault)
	}
	return err
}

// start starts nodes and records the fault as mended as soon as their processes run. The writes that their shards
// accept later show whether the nodes are ready.
func (s *striking) start(fault int, nodes []string) error {
	return s.mended(fault, s.Stand.Start(nodes...))
}
