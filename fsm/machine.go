package fsm

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// CommandVersion is the newest command version that this build writes and reads.
const CommandVersion = store.Version

// FirstVersion is the command version of the first build. Every build reads it.
const FirstVersion = store.FirstVersion

// Machine is the state machine of one shard. One goroutine applies entries; any number of goroutines may read.
type Machine struct {
	moving atomic.Bool // a slot is not open

	mu       sync.RWMutex // guards all fields below
	store    *store.Store
	applier  applier
	observer func(*task.Event) // nil: no receiver
}

// applier makes the transitions of commands. It has no lock: Machine holds its own while an entry is applied.
type applier struct {
	store    *store.Store   // that of the machine
	full     bool           // the caller wants the results of the current entry
	commands int            // in the current entry
	room     []fsmpb.Result // for results of the current entry: see result
	unread   fsmpb.Result   // instead of them if the caller wants no results
	grants   []task.Grant   // made by the current entry
	after    []func()       // work of the current command for its end, when no task is being changed
	shard    uint32
	drops    atomic.Uint64 // see Machine.Drops
}

// New returns an empty machine.
func New(shard uint32) *Machine { return newMachine(shard, store.New(shard)) }

func newMachine(shard uint32, state *store.Store) *Machine {
	return &Machine{store: state, applier: applier{shard: shard, store: state}}
}

// Observe sets the receiver of the events of the entries that are applied from now on. It gets them in their order,
// from the goroutine that calls Apply, owns each Event only during the call, and must not call the machine.
func (m *Machine) Observe(observer func(*task.Event)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observer = observer
	m.store.Observe(observer)
}

// Applied holds the results of one entry.
type Applied struct {
	Results []*fsmpb.Result // one for each command, in order
	Grants  []task.Grant    // in the order in which they were made
	Lanes   []task.LaneLoad // lanes that the entry changed, each once, with their loads after it; an empty lane has zeros
	Wanting bool            // a schedule wants coming instants: see WantingSeries
}

// Apply applies one entry, a marshalled fsmpb.Entry. The caller must not change data while Apply runs, because the
// commands point into it. Apply fills Applied only if full is set: only a leader needs the results. An error means
// that the entry cannot be read or has a newer command version. The machine has then applied no part of the entry, and
// the replica must stop.
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
	m.store.Version = max(m.store.Version, entry.Version)
	m.applier.passTime(entry.AtMs)
	m.applier.full, m.applier.grants, m.applier.room, m.applier.commands = full, nil, nil, len(entry.Commands)
	var applied Applied
	if full {
		applied.Results = make([]*fsmpb.Result, 0, len(entry.Commands))
	}
	places := m.store.Locate(entry.Commands)
	for i, c := range entry.Commands {
		if result := m.applier.apply(c, places[i]); full {
			applied.Results = append(applied.Results, result)
		}
		m.applier.closeOccurrences()
		m.applier.follow(c.GetSettle())
	}
	applied.Lanes = m.store.Lanes.Settle(full)
	m.moving.Store(!m.store.Slots.AllOpen())
	applied.Grants, m.applier.grants = m.applier.grants, nil
	applied.Wanting = m.store.Schedules.Wants()
	return applied, nil
}

// setBack is the least distance, in milliseconds, by which an entry's instant precedes the highest one if the clocks
// were set back. A smaller distance means that a leader's clock is a little behind its predecessor's.
const setBack = 1000

// passTime brings the log's time to the instant of an entry. The time stands still while leaders whose clocks differ a
// little follow each other. It goes back when clocks that were ahead are corrected: durations must not count from an
// instant in the far future.
func (a *applier) passTime(atMs int64) {
	if s := a.store; atMs > s.NowMs || s.NowMs-atMs >= setBack {
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
