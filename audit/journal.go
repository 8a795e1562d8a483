package audit

import (
	"os"
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
	seen view
}

// view is the part of the files that readers may read.
type view struct {
	newest os.FileInfo // of the newest file
	size   int64       // of the newest file: whole lines only
	first  uint64      // number of the first record in the newest file; 0: it is empty
	last   position    // of the newest record
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
	j.publish()
	return nil
}

// publish shows readers the present state of the files.
func (j *journal) publish() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = view{newest: j.files.info, size: j.files.size, first: j.files.first, last: j.files.last}
}

func (j *journal) view() view {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seen
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
			j.look()
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
	r := j.number(e.record)
	for {
		err := j.write(r)
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
		j.look() // an operator may have moved the file away to make space
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

// number gives a record the next number.
func (j *journal) number(r Record) Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.ID, r.Node = j.next.String(), j.cfg.Node
	j.next.number++
	return r
}

// write writes a record with a number.
func (j *journal) write(r Record) error {
	at, err := parsePosition(r.ID)
	var line []byte
	if err == nil {
		line, err = r.line()
	}
	if err == nil {
		err = j.health.during(func() error { return j.files.append(line, at) })
		j.publish() // the files may also have turned over before an error
	}
	if err == nil {
		j.copies.add(line)
		j.metrics.records.WithLabelValues(r.Kind).Inc()
	}
	return err
}

// look notices that another program has moved the newest file away.
func (j *journal) look() { j.files.look() }

func (j *journal) sync() {
	j.health.begin()
	j.health.synced(j.files.newest.Sync())
}

func (j *journal) close() error {
	close(j.closing)
	<-j.done
	return j.files.close()
}
