package audit

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// entry is the record of a change on its way to the writer.
type entry struct {
	record  Record
	written chan struct{} // closed after the write
}

// journal is the records of one kind, and their writer. Only the goroutine of run uses the files, and it waits for the
// disk without a lock.
type journal struct {
	cfg     Config
	metrics *metrics
	health  *health
	copies  *copies // nil: there are none
	files   *files
	closing chan struct{}
	done    chan struct{} // closed after the last write

	// One of the two is the source of the records.
	queue  chan entry // of changes
	rooms  chan struct{}
	groups *groups // of refusals

	mu   sync.Mutex
	next position // of the next record
}

func newJournal(cfg Config, m *metrics, c *copies) *journal {
	return &journal{
		cfg: cfg, metrics: m, copies: c, health: newHealth(cfg, m), closing: make(chan struct{}), done: make(chan struct{}),
	}
}

func (j *journal) open(f *files) error {
	if err := f.begin(); err != nil {
		return err
	}
	j.files, j.health.path = f, f.path
	j.next = position{f.last.log, f.last.number + 1}
	return nil
}

// run writes records until the journal is closed.
func (j *journal) run() {
	defer close(j.done)
	tick := time.NewTicker(syncPeriod)
	defer tick.Stop()
	var refused chan struct{}
	if j.groups != nil {
		refused = j.groups.wake
	}
	for dirty := false; ; {
		select {
		case e := <-j.queue:
			j.keep(e)
			dirty = true
		case <-refused:
			dirty = j.takeRefusals(false) || dirty
		case <-tick.C:
			dirty = j.takeRefusals(false) || dirty
			if dirty {
				j.sync()
			}
			dirty = false
			j.files.look()
		case <-j.closing:
			j.drain()
			return
		}
	}
}

// drain writes all that is left.
func (j *journal) drain() {
	j.takeRefusals(true)
	for {
		select {
		case e := <-j.queue:
			j.keep(e)
		default:
			return
		}
	}
}

// keep writes the record of a change. It tries until the disk takes the record, or the journal closes. Then the node's
// log gets the record instead.
func (j *journal) keep(e entry) {
	defer func() {
		close(e.written)
		<-j.rooms
	}()
	r, at := j.number(e.record)
	for {
		err := j.write(r, at)
		if err == nil {
			return
		}
		if !j.pause() {
			j.health.lose()
			line, _ := r.line() // an error of it would be err
			j.cfg.Logger.Error("a record of the audit log was not written", "file", j.files.path, "record", string(line),
				"err", err)
			return
		}
		j.files.look() // an operator may have moved the file away to make space
	}
}

// pause waits until the next attempt to write. It returns false if the journal closes.
func (j *journal) pause() bool {
	timer := time.NewTimer(syncPeriod)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-j.closing:
		return false
	}
}

// takeRefusals writes the refusals that are due, or all. It reports whether there were any. A refusal that the disk
// does not take is lost, with its number.
func (j *journal) takeRefusals(all bool) bool {
	if j.groups == nil {
		return false
	}
	due := j.groups.take(all)
	for _, r := range due {
		if j.write(j.number(r)) != nil {
			j.health.lose()
		}
	}
	return len(due) > 0
}

// upcoming returns the position of the next record.
func (j *journal) upcoming() position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.next
}

// number gives a record the next number.
func (j *journal) number(r Record) (Record, position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := j.next
	r.ID, r.Node = at.String(), j.cfg.Node
	j.next.number++
	return r, at
}

// write writes a record at its position.
func (j *journal) write(r Record, at position) error {
	line, err := r.line()
	if err == nil {
		err = j.health.during(func() error { return j.files.append(line, at) })
	}
	if err == nil {
		j.copies.add(line)
		j.metrics.records.WithLabelValues(r.Kind).Inc()
	}
	return err
}

func (j *journal) sync() {
	j.health.begin()
	j.health.synced(j.files.newest.Sync())
}

func (j *journal) close() error {
	close(j.closing)
	<-j.done
	return j.files.close()
}

// health is the state of the writes to one place.
type health struct {
	path    string
	log     *slog.Logger
	metrics *metrics

	mu     sync.Mutex
	since  time.Time // of the write under way; zero: there is none
	fault  error     // of the last write; nil: it succeeded
	failed uint64    // records lost since the last write that succeeded
}

func newHealth(cfg Config, m *metrics) *health {
	return &health{path: cfg.Path, log: cfg.Logger, metrics: m}
}

// during calls a function that waits for the disk, without the lock, and keeps its outcome.
func (h *health) during(write func() error) error {
	h.begin()
	err := write()
	h.end(err)
	return err
}

func (h *health) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = time.Now()
}

// end keeps the outcome of a write. It logs the first of consecutive failures, and the success after them.
func (h *health) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil && h.fault == nil:
		h.log.Error("the audit log cannot be written", "file", h.path, "err", err)
	case err == nil && h.fault != nil:
		h.log.Info("the audit log is written again", "file", h.path, "lost", h.failed)
		h.failed = 0
	}
	h.since, h.fault = time.Time{}, err
}

// synced keeps the outcome of a sync. Its success does not show that the file takes further records.
func (h *health) synced(err error) {
	if err != nil {
		h.end(err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = time.Time{}
}

// lose counts a record that will never be written.
func (h *health) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed++
	h.metrics.lost.Inc()
}

// failing returns the error of the last write, or one about a write that lasts longer than Patience, or nil.
func (h *health) failing() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != nil || h.since.IsZero() {
		return h.fault
	}
	if took := time.Since(h.since); took > Patience {
		return fmt.Errorf("a write to %s has not ended for %s", h.path, took.Round(time.Second))
	}
	return nil
}

// copies writes each line to a second place, such as standard output. A place that takes no lines delays no record.
type copies struct {
	cfg    Config
	health *health
	lines  chan []byte
	done   chan struct{}
}

const maxCopies = 1024 // lines that wait for the second place

func newCopies(cfg Config, m *metrics) *copies {
	h := newHealth(cfg, m)
	h.path = "the copy of " + cfg.Path
	return &copies{cfg: cfg, health: h, lines: make(chan []byte, maxCopies), done: make(chan struct{})}
}

// add hands a line over. A line for which there is no room is lost for the second place. c may be nil.
func (c *copies) add(line []byte) {
	if c == nil {
		return
	}
	select {
	case c.lines <- line:
	default:
		c.health.lose()
	}
}

func (c *copies) run() {
	defer close(c.done)
	for line := range c.lines {
		if c.health.during(func() error { _, err := c.cfg.Also.Write(line); return err }) != nil {
			c.health.lose()
		}
	}
}

// close waits until all lines are written. No line may be added any more.
func (c *copies) close() {
	close(c.lines)
	<-c.done
}
