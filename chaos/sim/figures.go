package sim

import (
	"fmt"
	"time"
)

// Figures are what a run did.
type Figures struct {
	Simulated time.Duration
	Calls     int
	Arrivals  int
	Faults    int
	Terms     int
	Crashes   int    // of processes
	Torn      uint64 // writes that a crash cut
	Snapshots uint64 // written,
	Installed uint64 // and those of them that came from a leader
	Compared  uint64 // states of replicas with others after as many commands
	Lost      uint64 // messages
	Late      uint64 // messages that came after their sender had given up, or twice
}

// Add adds another run's.
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
	f.Compared += o.Compared
	f.Lost += o.Lost
	f.Late += o.Late
}

func (f Figures) String() string {
	return fmt.Sprintf("%v simulated: %d calls, %d arrivals; %d faults, %d crashes, %d terms, %d torn writes, "+
		"%d snapshots, %d of them installed, %d messages lost, %d late or twice; %d states compared",
		f.Simulated.Round(time.Minute), f.Calls, f.Arrivals, f.Faults, f.Crashes, f.Terms, f.Torn,
		f.Snapshots, f.Installed, f.Lost, f.Late, f.Compared)
}
