package audit

import "time"

// run writes records until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	tick := time.NewTicker(syncPeriod)
	defer tick.Stop()
	for dirty := false; ; {
		select {
		case e := <-l.queue:
			l.write(e)
			dirty = true
		case <-tick.C:
			dirty = l.writeCounts() || dirty
			if dirty {
				l.sync()
			}
			dirty = false
			l.look()
		case <-l.closing:
			l.drain()
			return
		}
	}
}

// drain writes all that is left.
func (l *Log) drain() {
	for {
		select {
		case e := <-l.queue:
			l.write(e)
		default:
			for _, r := range l.groups.end(time.Time{}) {
				l.write(entry{record: r})
			}
			return
		}
	}
}

// writeCounts writes the counts of refusals whose minute is over, and reports whether there were any.
func (l *Log) writeCounts() bool {
	ended := l.groups.end(l.cfg.Now())
	for _, r := range ended {
		l.write(entry{record: r})
	}
	return len(ended) > 0
}

// write gives a record its number, and writes it. A record that cannot be written is lost, with its number.
func (l *Log) write(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.written != nil {
		defer close(e.written)
	}
	r, at := e.record, l.next
	l.next.number++
	r.ID, r.Node = at.String(), l.cfg.Node
	line, err := r.line()
	if err == nil {
		err = l.files.append(line, at)
	}
	if err == nil && l.cfg.Also != nil {
		_, err = l.cfg.Also.Write(line)
	}
	l.judge(err)
	l.metrics.records.WithLabelValues(r.Kind).Inc()
}

// look notices that another program has moved the newest file away.
func (l *Log) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files.look()
}

func (l *Log) sync() {
	l.mu.Lock()
	newest := l.files.newest
	l.mu.Unlock()
	// Only this goroutine replaces or closes the file, so readers need not wait for the disk.
	if err := newest.Sync(); err != nil {
		l.lose(0, err)
	}
}

// lose counts lost records, and logs the first of a row.
func (l *Log) lose(records int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loseLocked(records, err)
}

func (l *Log) loseLocked(records int, err error) {
	if l.fault == nil {
		l.cfg.Logger.Error("the audit log loses records, until a write succeeds", "file", l.cfg.Path, "err", err)
	}
	l.fault = err
	l.failed += uint64(records)
	l.metrics.lost.Add(float64(records))
	l.metrics.failing.Set(1)
}

// judge notes the outcome of a write. The caller holds the lock.
func (l *Log) judge(err error) {
	if err != nil {
		l.loseLocked(1, err)
		return
	}
	if l.fault != nil {
		l.cfg.Logger.Info("the audit log is written again", "file", l.cfg.Path, "lost", l.failed)
	}
	l.fault, l.failed = nil, 0
	l.metrics.failing.Set(0)
}
