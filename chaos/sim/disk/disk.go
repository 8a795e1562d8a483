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

// Trouble is how a disk behaves.
type Trouble struct {
	Delay  time.Duration // of each write, at least,
	Jitter time.Duration // and on top of it up to this much, evenly
	Fail   float64       // share of writes that fail
	Hang   bool          // writes do not return
}

// Disk outlives processes. Its methods are safe for concurrent use.
type Disk struct {
	mu      sync.Mutex
	rng     *rand.Rand
	trouble Trouble
	content *content // as the open process has made it
	open    *Stores  // nil: none
	writing *write   // under way
	stats   Stats
}

// Stats counts what happened to a disk.
type Stats struct{ Writes, Torn, Failed, Snapshots uint64 }

// content is what a disk holds.
type content struct {
	first, last uint64 // of the log; 0: it is empty
	logs        map[uint64]*raft.Log
	numbers     map[string]uint64
	values      map[string][]byte
	snapshots   []*snapshot // the newest first
}

func (c *content) clone() *content {
	return &content{
		first: c.first, last: c.last, logs: maps.Clone(c.logs), numbers: maps.Clone(c.numbers),
		values: maps.Clone(c.values), snapshots: slices.Clone(c.snapshots),
	}
}

// New is an empty disk.
func New(seed uint64, calm Trouble) *Disk {
	return &Disk{
		rng: rand.New(rand.NewPCG(seed, 0x6469736b)), trouble: calm,
		content: &content{logs: map[uint64]*raft.Log{}, numbers: map[string]uint64{}, values: map[string][]byte{}},
	}
}

// Set changes how the disk behaves from the next write on.
func (d *Disk) Set(t Trouble) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = t
}

// Stats is what was counted until now.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Empty tells whether nothing was ever written.
func (d *Disk) Empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.content.last == 0 && len(d.content.snapshots) == 0 && len(d.content.numbers) == 0
}

// Process is whose disk it is.
type Process interface {
	// Sleep passes time; false: the process has ended.
	Sleep(time.Duration) bool
	// Gate returns when the process runs; false: it has ended.
	Gate() bool
	Life() context.Context
}

// Open gives the disk to a process. It brings log and newest snapshot together as the real store does when it opens:
// a log that the snapshot does not continue goes.
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

// continues tells whether the log goes on from a snapshot, or overlaps with it in agreement.
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

// Crash takes the disk away from its process. Of a write that is under way any first part may have happened.
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

// write is a change of the content. do can be asked to do a first part of it only.
type write struct {
	parts int
	do    func(c *content, parts int)
}

// Why a write fails.
var (
	errFailed  = errors.New("the disk has failed")
	errTimeout = errors.New("the disk does not answer")
)

// begin notes a write, and says how long it takes and what it comes to. alive: the process still has the disk.
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

// end does a write that has come to its end, also in the void.
func (d *Disk) end(s *Stores, w *write) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.do(s.content, w.parts)
	if d.open == s {
		d.writing = nil
	}
}

// Ended tells whether an error is one for which a process ends because of its disk.
func Ended(err error) bool { return errors.Is(err, errFailed) || errors.Is(err, errTimeout) }
