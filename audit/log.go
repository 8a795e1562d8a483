package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The bounds of a log.
const (
	DefaultFileBytes = 8 << 20
	DefaultFiles     = 16          // 128 MiB in all
	Patience         = time.Second // longest wait of Change for a write
	queueLength      = 1024        // records that wait for a write
	syncPeriod       = time.Second // longest time between a write and its sync
)

// Config holds the settings of a Log.
type Config struct {
	Path      string    // of the newest file
	Also      io.Writer // gets each line, too; nil: none
	Node      string    // id of the node, in each record
	FileBytes int64     // bytes of a file; 0: DefaultFileBytes
	Files     int       // number of files, 2 at least; 0: DefaultFiles

	Now        func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: metrics are not registered
}

func (c Config) withDefaults() (Config, error) {
	if c.FileBytes == 0 {
		c.FileBytes = DefaultFileBytes
	}
	if c.Files == 0 {
		c.Files = DefaultFiles
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Path == "":
		return c, errors.New("audit: no path")
	case c.FileBytes < 0, c.Files < 2:
		return c, fmt.Errorf("audit: %d files of %d bytes: two files at least", c.Files, c.FileBytes)
	}
	return c, nil
}

// Log is the records of one node. Its methods are safe for concurrent use. Close must be called last.
type Log struct {
	cfg     Config
	metrics metrics
	groups  groups
	queue   chan entry
	closing chan struct{}
	done    chan struct{}

	mu     sync.Mutex // also held during a write, so that readers see whole lines
	files  *files
	fault  error    // of the last write; nil: it succeeded
	next   position // of the next record
	failed uint64   // records lost since the last write that succeeded
}

// entry is a record on its way to the writer.
type entry struct {
	record  Record
	written chan struct{} // closed after the write; nil: the caller does not wait
}

// Open opens the log in the files at cfg.Path, and starts its writer.
func Open(cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		cfg: cfg, metrics: newMetrics(), queue: make(chan entry, queueLength), groups: newGroups(),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	if err := l.metrics.register(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if l.files, err = openFiles(cfg.Path, cfg.FileBytes, cfg.Files); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	l.next = position{l.files.last.log, l.files.last.number + 1}
	go l.run()
	return l, nil
}

// Change records a call that changes something, and waits until the operating system has the record, Patience at most.
func (l *Log) Change(r Record) {
	r.Kind, r.Time = KindChange, Instant{l.cfg.Now()}
	written := make(chan struct{})
	if !l.enqueue(entry{r, written}) {
		return
	}
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-written:
	case <-patience.C:
	case <-l.done:
	}
}

// Refuse records a refused call, or counts it if an equal one was recorded within the last minute. It does not wait.
func (l *Log) Refuse(r Record) {
	r.Kind, r.Time = KindRefusal, Instant{l.cfg.Now()}
	if l.groups.first(&r) {
		l.enqueue(entry{record: r})
	}
}

// enqueue gives a record to the writer. A record for which there is no room is lost.
func (l *Log) enqueue(e entry) bool {
	select {
	case l.queue <- e:
		return true
	default:
		l.lose(1, errors.New("too many records wait for the disk"))
		return false
	}
}

// Failing returns the error of the last write, or nil if it succeeded.
func (l *Log) Failing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// Close writes the records that wait, and the counts of refusals, and closes the files.
func (l *Log) Close() error {
	close(l.closing)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.files.newest.Sync(), l.files.newest.Close())
}
