package fsm

import (
	"fmt"
	"sync"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// CommandVersion is the newest command version that this build writes and reads.
const CommandVersion = store.Version

// Machine is the state machine of one shard. One goroutine applies, any number read.
type Machine struct {
	shard uint32

	mu    sync.RWMutex // guards all below
	store *store.Store

	full   bool         // the results of the current entry are wanted
	grants []task.Grant // of the current entry
}

// New returns an empty machine.
func New(shard uint32) *Machine { return &Machine{shard: shard, store: store.New(shard)} }

// Applied holds the results of one entry.
type Applied struct {
	Results []*fsmpb.Result // one for each command, in order
	Grants  []task.Grant    // in the order in which they were made
	Lanes   []task.LaneLoad // the lanes that the entry changed, as it left them; each once, with zeros if it is empty now
}

// Apply applies one entry, a marshalled fsmpb.Entry. The caller must not change data while Apply runs: the commands
// point into it. Applied is filled only if full is set, for only a leader needs it. An error means that the entry
// cannot be read, or is of a newer command version: nothing of it was applied, and the replica must stop.
func (m *Machine) Apply(data []byte, full bool) (Applied, error) {
	entry := fsmpb.EntryFromVTPool()
	defer entry.ReturnToVTPool()
	if err := entry.UnmarshalVTUnsafe(data); err != nil {
		return Applied{}, fmt.Errorf("entry cannot be read: %w", err)
	}
	if err := checkEntry(entry); err != nil {
		return Applied{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passTime(entry.AtMs)
	m.full, m.grants = full, nil
	var applied Applied
	places := m.store.Locate(entry.Commands)
	for i, c := range entry.Commands {
		if result := m.apply(c, places[i]); full {
			applied.Results = append(applied.Results, result)
		}
	}
	applied.Lanes = m.store.SettleLanes(full)
	applied.Grants, m.grants = m.grants, nil
	return applied, nil
}

// setBack is by how many milliseconds at least an entry's instant lies before the highest one if the clocks were set
// back, rather than one leader's clock being a little behind its predecessor's.
const setBack = 1000

// passTime brings the log's time to that of an entry. The time stands while leaders whose clocks are a little apart
// follow each other. It goes back when clocks that were ahead are set right: durations from now on must not count from
// an instant that is long to come.
func (m *Machine) passTime(atMs int64) {
	if s := m.store; atMs > s.NowMs || s.NowMs-atMs >= setBack {
		s.NowMs = atMs
	}
}

func checkEntry(e *fsmpb.Entry) error {
	if e.Version > CommandVersion {
		return fmt.Errorf("entry has command version %d, and this build knows %d at most: upgrade this node",
			e.Version, CommandVersion)
	}
	for i, c := range e.Commands {
		if c.Op == nil {
			return fmt.Errorf("command %d of %d is of a kind unknown to this build: upgrade this node", i+1, len(e.Commands))
		}
	}
	return nil
}
