package disk

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Trouble describes how a disk behaves.
type Trouble struct {
	Delay  time.Duration // least duration of a write
	Jitter time.Duration // further duration of a write: up to this much, evenly drawn
	Fail   float64       // share of writes that fail
	Hang   bool          // writes do not return
}

// Disk is the disk of one replica. It outlives the processes that open it. Its methods are safe for concurrent use.
type Disk struct {
	report func(Reconfiguration) // see Watch

	mu      sync.Mutex
	rng     *rand.Rand
	trouble Trouble
	content *content // shared with open
	open    *Stores  // of the process that has the disk; nil: none has
	writing *write   // the write under way; nil: none
	stats   Stats
}

// Stats counts the writes that began, those of them that a crash cut short or that failed, and the snapshots begun.
type Stats struct{ Writes, Torn, Failed, Snapshots uint64 }

// content is the data on a disk.
type content struct {
	first, last uint64 // indexes of the log; 0: it is empty
	logs        map[uint64]*raft.Log
	numbers     map[string]uint64
	values      map[string][]byte
	snapshots   []*snapshot // whole ones, the newest first
}

func (c *content) clone() *content {
	return &content{
		first: c.first, last: c.last, logs: maps.Clone(c.logs), numbers: maps.Clone(c.numbers),
		values: maps.Clone(c.values), snapshots: slices.Clone(c.snapshots),
	}
}

// New returns an empty disk that behaves as calm until Set.
func New(seed uint64, calm Trouble) *Disk {
	return &Disk{
		rng: rand.New(rand.NewPCG(seed, 0x6469736b)), trouble: calm,
		content: newContent(),
	}
}

func newContent() *content {
	return &content{logs: map[uint64]*raft.Log{}, numbers: map[string]uint64{}, values: map[string][]byte{}}
}

// Set changes how the disk behaves from the next write on.
func (d *Disk) Set(t Trouble) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = t
}

// Stats returns the counts until now.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Empty reports whether the disk holds no log, no snapshot and no number. A used disk holds Raft's term at least.
func (d *Disk) Empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.content.last == 0 && len(d.content.snapshots) == 0 && len(d.content.numbers) == 0
}

// Process is the process that has a disk.
type Process interface {
	// Sleep waits for the duration. It returns false as soon as the process has ended.
	Sleep(time.Duration) bool
	// Gate returns true when the process is not frozen, and false if it has ended.
	Gate() bool
	Life() context.Context
}

// Open gives the disk to a process. A write that fails or takes longer than timeout calls fatal. Open drops the log
// unless it continues the newest snapshot, as the real store does when it opens.
func (d *Disk) Open(p Process, timeout time.Duration, fatal func(error)) *Stores {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &Stores{disk: d, content: d.content, process: p, timeout: timeout, fatal: fatal, turn: make(chan struct{}, 1)}
	d.open = s
	if newest := s.content.newest(); newest != nil && !s.content.continues(newest.meta.Index, newest.meta.Term) {
		s.content.remove(s.content.first, s.content.last)
	}
	return s
}

// continues reports whether the log begins right after a snapshot at index, or overlaps with the snapshot in
// agreement. An empty log does.
func (c *content) continues(index, term uint64) bool {
	if c.last == 0 {
		return true
	}
	if c.last < index || c.first > index+1 {
		return false
	}
	l := c.logs[index]
	return l == nil || l.Term == term
}

// Wipe deletes all data, as one change. The process that has the disk must have closed it. Its goroutines that still
// write go on in a void.
func (d *Disk) Wipe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.content, d.open, d.writing = newContent(), nil, nil
}

// Crash takes the disk away from its process. Any first part of a write that is under way may have happened.
func (d *Disk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		return
	}
	after := d.content.clone()
	if w := d.writing; w != nil {
		parts := d.rng.IntN(w.parts + 1)
		if parts < w.parts {
			d.stats.Torn++
		}
		w.do(after, parts)
	}
	d.content, d.open, d.writing = after, nil, nil
}

// write is a change of the content, in parts. do makes the first parts of the change.
type write struct {
	parts int
	do    func(c *content, parts int)
}

// The errors of a write that fails.
var (
	errFailed  = errors.New("the disk has failed")
	errTimeout = errors.New("the disk does not answer")
)

// begin notes a write as under way and returns how long it takes and how it ends. alive is false if the process no
// longer has the disk.
func (d *Disk) begin(s *Stores, w *write) (wait time.Duration, alive bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != s {
		return 0, false, nil
	}
	d.writing = w
	d.stats.Writes++
	t := d.trouble
	wait = t.Delay
	if t.Jitter > 0 {
		wait += time.Duration(d.rng.Int64N(int64(t.Jitter)))
	}
	switch {
	case t.Hang || wait > s.timeout:
		wait, err = s.timeout, errTimeout
	case t.Fail > 0 && d.rng.Float64() < t.Fail:
		err = errFailed
	}
	if err != nil {
		d.stats.Failed++
	}
	return wait, true, err
}

// end makes the change of a write whose time has passed. The write of a dead process changes the void alone.
func (d *Disk) end(s *Stores, w *write) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.do(s.content, w.parts)
	if d.open == s {
		d.writing = nil
	}
}

// Ended reports whether err is an error of the disk, for which a process ends itself.
func Ended(err error) bool { return errors.Is(err, errFailed) || errors.Is(err, errTimeout) }

// Reconfiguration is a change of a group's members: an entry of the log with a configuration, and the configuration
// that the same log has before the entry.
type Reconfiguration struct {
	Index, Term   uint64
	Before, After raft.Configuration
}

// Watch has report called for each configuration that a process is about to append to the log. It is called before the
// first process opens the disk.
func (d *Disk) Watch(report func(Reconfiguration)) { d.report = report }

// reportMembers reports the configurations among entries that are about to be appended.
func (s *Stores) reportMembers(entries []*raft.Log) {
	if s.disk.report == nil {
		return
	}
	for i, e := range entries {
		if e.Type != raft.LogConfiguration {
			continue
		}
		s.disk.mu.Lock()
		alive, before := s.disk.open == s, s.content.configuration(entries[:i])
		s.disk.mu.Unlock()
		if alive {
			s.disk.report(Reconfiguration{e.Index, e.Term, before, raft.DecodeConfiguration(e.Data)})
		}
	}
}

// configuration returns the newest configuration in a log with further entries at its end, or in its snapshot.
func (c *content) configuration(further []*raft.Log) raft.Configuration {
	for i := len(further) - 1; i >= 0; i-- {
		if further[i].Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(further[i].Data)
		}
	}
	for i := c.last; i >= max(c.first, 1); i-- {
		if l := c.logs[i]; l != nil && l.Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(l.Data)
		}
	}
	if newest := c.newest(); newest != nil {
		return newest.meta.Configuration
	}
	return raft.Configuration{}
}

// Last returns the index of the last entry on the disk, in the log or in a snapshot.
func (d *Disk) Last() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.content.last
	if newest := d.content.newest(); newest != nil {
		last = max(last, newest.meta.Index)
	}
	return last
}

// Configuration returns the newest configuration up to an index, in the log or the newest snapshot, and its own index.
func (d *Disk) Configuration(upTo uint64) (index uint64, c raft.Configuration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := min(upTo, d.content.last); i >= max(d.content.first, 1); i-- {
		if l := d.content.logs[i]; l != nil && l.Type == raft.LogConfiguration {
			return i, raft.DecodeConfiguration(l.Data)
		}
	}
	if newest := d.content.newest(); newest != nil {
		return newest.meta.ConfigurationIndex, newest.meta.Configuration
	}
	return 0, raft.Configuration{}
}
