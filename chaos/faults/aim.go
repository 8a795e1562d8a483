package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

// Part is the part that a node plays in a move.
type Part string

// The parts.
const (
	Reconciler Part = "reconciler" // it leads the control group, which takes the steps
	Source     Part = "source"     // it leads the shard that is copied, or that gives slots
	Leaving    Part = "leaving"    // it holds a replica that the move takes from it
	Receiver   Part = "target"     // it gets a replica, or leads the shard that gets slots
)

var parts = []Part{Reconciler, Source, Leaving, Receiver}

// The things that move.
const (
	Replica = "replica"
	Slots   = "slots"
)

// Aim is a node's part at a step of a move.
type Aim struct {
	Moves string // Replica or Slots
	Step  string // as GET /v1/cluster names it, or copying
	Part  Part
}

func (a Aim) String() string { return fmt.Sprintf("%s at %s of a %s move", a.Part, a.Step, a.Moves) }

// copying is the time between the steps join and promote, while a replica catches up.
const copying = "copy"

// The steps of moves, in their order. A move of slots that is given up has the retreat's steps.
var (
	replicaSteps = []string{"place", "join", copying, "promote", "transfer", "remove", "drop", "settle"}
	slotSteps    = []string{"expect", "copy", "seal", "ready", "decide", "open", "drop", "end"}
	retreatSteps = []string{"give_up", "unseal", "abandon"}
)

// ReplicaAims returns all aims of a move of replicas. At the last step no replica is left that leaves.
func ReplicaAims() []Aim {
	return slices.DeleteFunc(aimsAt(Replica, replicaSteps, parts), func(a Aim) bool {
		return a.Step == "settle" && a.Part == Leaving
	})
}

// SlotAims returns all aims of a move of slots that is not given up.
func SlotAims() []Aim { return aimsAt(Slots, slotSteps, slotParts) }

// RetreatAims returns all aims of a move of slots that is given up, except its last step, which SlotAims has.
func RetreatAims() []Aim { return aimsAt(Slots, retreatSteps, slotParts) }

var slotParts = []Part{Reconciler, Source, Receiver}

func aimsAt(moves string, steps []string, parts []Part) []Aim {
	var aims []Aim
	for _, step := range steps {
		for _, part := range parts {
			aims = append(aims, Aim{moves, step, part})
		}
	}
	return aims
}

// Aims counts the kills of a plan: those to come, and those that hit.
type Aims struct {
	mu   sync.Mutex // guards the fields below
	want map[Aim]int
	hits map[Aim]int
	// settled has the nodes of each shard when the shard was last seen where it should be.
	settled map[uint32][]string
}

// NewAims returns Aims with the same number of kills for each aim.
func NewAims(times int, aims ...Aim) *Aims {
	a := &Aims{want: map[Aim]int{}, hits: map[Aim]int{}, settled: map[uint32][]string{}}
	for _, aim := range aims {
		a.want[aim] = times
	}
	return a
}

// Left returns the aims about a kind of move that were not hit often enough.
func (a *Aims) Left(moves string) []Aim {
	a.mu.Lock()
	defer a.mu.Unlock()
	var left []Aim
	for aim, want := range a.want {
		if aim.Moves == moves && a.hits[aim] < want {
			left = append(left, aim)
		}
	}
	slices.SortFunc(left, func(x, y Aim) int { return strings.Compare(x.String(), y.String()) })
	return left
}

// Hits returns how often an aim was hit.
func (a *Aims) Hits(aim Aim) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits[aim]
}

func (a *Aims) hit(aim Aim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hits[aim]++
}

// Markdown returns a table of the hits. A pair of step and part that is not wanted and was not hit is empty.
func (a *Aims) Markdown() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	b.WriteString("| killed at | reconciler | source | leaving | target |\n| --- | --- | --- | --- | --- |\n")
	for _, steps := range []struct {
		moves string
		names []string
	}{{Replica, replicaSteps}, {Slots, slices.Concat(slotSteps, retreatSteps)}} {
		for _, step := range steps.names {
			fmt.Fprintf(&b, "| %s: %s |", steps.moves, step)
			for _, part := range parts {
				b.WriteString(a.cell(Aim{steps.moves, step, part}))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func (a *Aims) cell(aim Aim) string {
	if a.hits[aim] == 0 && a.want[aim] == 0 {
		return " |"
	}
	return fmt.Sprintf(" %d |", a.hits[aim])
}

// shot is a wanted aim that a view shows.
type shot struct {
	Aim
	node string // name
	move string // the move, for people
	led  []uint32
}

// shots returns the wanted aims that a view shows. It remembers where the shards are that do not move.
func (a *Aims) shots(view *client.Cluster) []shot {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []shot
	for _, s := range view.Shards {
		if len(s.Target) == 0 {
			a.settled[s.ID] = holders(s)
			continue
		}
		all = append(all, shotsOf(view, Replica, stepOf(s), fmt.Sprintf("shard %d", s.ID), map[Part]string{
			Reconciler: view.Control.Leader, Source: s.Leader, Leaving: leaving(s), Receiver: newHolder(s, a.settled[s.ID]),
		})...)
	}
	for _, m := range view.SlotMoves {
		move := fmt.Sprintf("move %d, from shard %d to %d", m.Number, m.From, m.To)
		all = append(all, shotsOf(view, Slots, m.Step, move, map[Part]string{
			Reconciler: view.Control.Leader, Source: leaderOf(view, m.From), Receiver: leaderOf(view, m.To),
		})...)
	}
	return slices.DeleteFunc(all, func(s shot) bool { return a.hits[s.Aim] >= a.want[s.Aim] })
}

// shotsOf returns a shot for each part whose node is known.
func shotsOf(view *client.Cluster, moves, step, move string, nodes map[Part]string) []shot {
	var all []shot
	for _, part := range parts {
		if node := view.Node(nodes[part]); node != nil {
			all = append(all, shot{Aim{moves, step, part}, node.Name, move, ledBy(view, node.ID)})
		}
	}
	return all
}

func holders(s client.Shard) []string {
	var nodes []string
	for _, r := range s.Replicas {
		nodes = append(nodes, r.Node)
	}
	return nodes
}

func leaderOf(view *client.Cluster, shard uint32) string {
	for _, s := range view.Shards {
		if s.ID == shard {
			return s.Leader
		}
	}
	return ""
}

func ledBy(view *client.Cluster, node string) []uint32 {
	var led []uint32
	for _, s := range view.Shards {
		if s.Leader == node {
			led = append(led, s.ID)
		}
	}
	return led
}

// stepOf returns the step of a shard's move. A replica without a vote is copied between two steps.
func stepOf(s client.Shard) string {
	if s.Step == "" && copyOf(s) != "" {
		return copying
	}
	return s.Step
}

// copyOf returns the node of a replica that does not vote yet, or "".
func copyOf(s client.Shard) string {
	for _, r := range s.Replicas {
		if slices.Contains(s.Target, r.Node) && !r.Voter {
			return r.Node
		}
	}
	return ""
}

// leaving returns a node whose replica goes, one that does not lead if there is a choice; "" if none is left.
func leaving(s client.Shard) string {
	var nodes []string
	for _, r := range s.Replicas {
		if !slices.Contains(s.Target, r.Node) {
			nodes = append(nodes, r.Node)
		}
	}
	slices.SortStableFunc(nodes, func(x, _ string) int {
		if x == s.Leader {
			return 1
		}
		return -1
	})
	return slices.Concat(nodes, []string{""})[0]
}

// newHolder returns the node that gets a replica, or got one in this move; "" if none is known. before are the nodes
// that held the shard before the move.
func newHolder(s client.Shard, before []string) string {
	if node := copyOf(s); node != "" {
		return node
	}
	held := holders(s)
	for _, node := range s.Target {
		placed := s.Step != "place" && slices.Contains(held, node) && before != nil && !slices.Contains(before, node)
		if s.Step == "place" && !slices.Contains(held, node) || placed {
			return node
		}
	}
	return ""
}

const (
	aimEvery = 20 * time.Millisecond // between two looks at the cluster
	aimFresh = 50 * time.Millisecond // a look that takes longer tells of the past
	aimMade  = 30 * time.Millisecond // that a step takes after its pause
	aimFor   = 5 * time.Second       // that a fault of a striker looks
)

// KillAimed kills a node that plays a wanted part at a step of a move, at a random moment of the step, and starts it
// again after on.Hold. pause is the time that the nodes pause before each step, by BELFRY_STEP_PAUSE. The kill counts
// as a hit, because the cluster said an instant before that the move was at this step. KillAimed returns ErrBusy if ctx
// ends first, or if another fault holds the node.
func KillAimed(ctx context.Context, on Target, aims *Aims, pause time.Duration) error {
	return (&striking{Target: on, ctx: ctx, kind: AimedKill}).killAt(ctx, aims, pause)
}

// killAtAnyStep kills a node at any step of a move that it sees.
func (s *striking) killAtAnyStep([]string) error {
	looking, cancel := context.WithTimeout(s.ctx, aimFor)
	defer cancel()
	return s.killAt(looking, NewAims(1, slices.Concat(ReplicaAims(), SlotAims(), RetreatAims())...), 0)
}

// killAt waits for a wanted shot, then for a random moment of the step, and kills the node of a shot of that moment.
func (s *striking) killAt(looking context.Context, aims *Aims, pause time.Duration) error {
	for {
		if len(s.look(looking, aims)) > 0 {
			wait.For(looking, s.upTo(pause+aimMade))
			if shots := s.look(looking, aims); len(shots) > 0 {
				return s.shoot(aims, pick(s.Rand, shots))
			}
		}
		if !wait.For(looking, aimEvery) {
			return ErrBusy
		}
	}
}

// look returns the wanted shots of this moment.
func (s *striking) look(ctx context.Context, aims *Aims) []shot {
	began := time.Now()
	view, err := s.Stand.View(ctx)
	if err != nil || time.Since(began) > aimFresh {
		return nil // no node answers at the moment, or not soon enough
	}
	return aims.shots(view)
}

// shoot kills the node of a shot.
func (s *striking) shoot(aims *Aims, shot shot) error {
	node := []string{shot.node}
	release, err := s.claim(node)
	if err != nil {
		return err
	}
	defer release()
	fault := s.Recorder.Strike(history.Fault{
		Kind: AimedKill, Nodes: node, Shards: shot.led, Restarted: true,
		Detail: fmt.Sprintf("%s (%s), dead for %v", shot.Aim, shot.move, s.Hold.Round(time.Millisecond)),
	})
	if err := s.sigkill(node); err != nil {
		return err
	}
	aims.hit(shot.Aim)
	s.hold(fault, s.Hold)
	return s.start(fault, node)
}
