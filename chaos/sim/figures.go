package sim

import (
	"fmt"
	"time"
)

// Figures count the events of one run, or of several.
type Figures struct {
	Simulated time.Duration
	Calls     int
	Arrivals  int // without those of occurrences
	Faults    int
	Terms     int
	Crashes   int    // deaths of processes, orderly ends included
	Torn      uint64 // writes that a crash cut short
	Snapshots uint64 // begun, both local ones and those received
	Installed uint64 // installed by a follower and confirmed to its leader
	Moves     int    // shards that came to where they should be
	Changes   int    // of the members of the shards' groups
	Compared  uint64 // comparisons with another replica's state after as many commands
	Lost      uint64 // lost messages
	Late      uint64 // messages drawn to arrive after their sender gave up, or twice

	Occurrences int // arrivals of occurrences of schedules

	Operations int    // on slots
	SlotMoves  uint64 // moves of slots begun
	GivenUp    int    // of them
	Reigns     int    // times that a node began to drive moves of slots
}

// Add adds the figures of another run.
func (f *Figures) Add(o Figures) {
	f.Simulated += o.Simulated
	f.Calls += o.Calls
	f.Arrivals += o.Arrivals
	f.Faults += o.Faults
	f.Terms += o.Terms
	f.Crashes += o.Crashes
	f.Torn += o.Torn
	f.Snapshots += o.Snapshots
	f.Installed += o.Installed
	f.Moves += o.Moves
	f.Changes += o.Changes
	f.Compared += o.Compared
	f.Lost += o.Lost
	f.Late += o.Late
	f.Occurrences += o.Occurrences
	f.Operations += o.Operations
	f.SlotMoves += o.SlotMoves
	f.GivenUp += o.GivenUp
	f.Reigns += o.Reigns
}

func (f Figures) String() string {
	return fmt.Sprintf("%v simulated: %d calls, %d arrivals, %d of occurrences; %d faults, %d crashes, "+
		"%d terms, %d torn writes, %d snapshots, %d of them installed, %d messages lost, %d late or twice; "+
		"%d moves in %d changes of members; "+
		"%d operations on slots in %d moves, %d of them given up, driven %d times; %d states compared",
		f.Simulated.Round(time.Minute), f.Calls, f.Arrivals, f.Occurrences, f.Faults, f.Crashes, f.Terms, f.Torn,
		f.Snapshots, f.Installed, f.Lost, f.Late, f.Moves, f.Changes,
		f.Operations, f.SlotMoves, f.GivenUp, f.Reigns, f.Compared)
}
