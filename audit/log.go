package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The bounds of a log.
const (
	DefaultFileBytes = 8 << 20
	DefaultFiles     = 16          // of changes: 128 MiB in all
	RefusalFiles     = 8           // of refusals: 64 MiB in all
	Rooms            = 8192        // changes under way, and records of changes that wait for a write
	Patience         = time.Second // longest wait of Reserve for room, and of Change for a write
	syncPeriod       = time.Second // longest time between a write and its sync, and between two attempts to write
	closePatience    = 5 * time.Second
	maxReaders       = 8 // pages that are read at one time
)

// Config holds the settings of a Log.
type Config struct {
	Path         string    // of the newest file of changes; that of refusals is beside it, see RefusalsPath
	Also         io.Writer // gets each line, too; nil: none
	Node         string    // id of the node, in each record
	FileBytes    int64     // bytes of a file; 0: DefaultFileBytes
	Files        int       // number of files of changes, 2 at least; 0: DefaultFiles
	RefusalFiles int       // number of files of refusals, 2 at least; 0: RefusalFiles

	Now        func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: metrics are not registered

	open func(path string) (file, error) // opens a file for appending; nil: openFile
}

func (c Config) withDefaults() (Config, error) {
	c.FileBytes, c.Files = cmp.Or(c.FileBytes, DefaultFileBytes), cmp.Or(c.Files, DefaultFiles)
	c.RefusalFiles = cmp.Or(c.RefusalFiles, RefusalFiles)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.open == nil {
		c.open = openFile
	}
	switch {
	case c.Path == "":
		return c, errors.New("audit: no path")
	case c.FileBytes < 0, c.Files < 2, c.RefusalFiles < 2:
		return c, fmt.Errorf("audit: %d and %d files of %d bytes: two files at least", c.Files, c.RefusalFiles, c.FileBytes)
	}
	return c, nil
}

// RefusalsPath returns the path of the newest file of refusals: /a/audit.refusals.jsonl for /a/audit.jsonl.
func RefusalsPath(path string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + ".refusals" + ext
}

// Log is the records of one node. Its methods are safe for concurrent use. Close must be called last.
type Log struct {
	cfg      Config
	metrics  *metrics
	changes  *journal
	refusals *journal
	groups   *groups
	copies   *copies       // nil: there are none
	rooms    chan struct{} // has an element for each room that is taken
	readers  chan struct{} // has an element for each page that is being read
}

// Open opens the log in the files at cfg.Path, and starts its writers.
func Open(cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		cfg: cfg, groups: newGroups(), rooms: make(chan struct{}, Rooms), readers: make(chan struct{}, maxReaders),
	}
	l.metrics = newMetrics(l)
	if cfg.Also != nil {
		l.copies = newCopies(cfg, l.metrics)
	}
	l.changes = newJournal(cfg, l.metrics, l.copies)
	l.changes.queue, l.changes.rooms = make(chan entry, Rooms), l.rooms
	l.refusals = newJournal(cfg, l.metrics, l.copies)
	l.refusals.groups = l.groups
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	go l.changes.run()
	go l.refusals.run()
	if l.copies != nil {
		go l.copies.run()
	}
	return l, nil
}

func (l *Log) open() error {
	if err := l.metrics.register(l.cfg.Registerer); err != nil {
		return err
	}
	newFiles := func(path string, most int, prefix string) *files {
		return &files{
			path: path, bytes: l.cfg.FileBytes, most: most, prefix: prefix, openFile: l.cfg.open, log: l.cfg.Logger,
		}
	}
	if err := l.changes.open(newFiles(l.cfg.Path, l.cfg.Files, "")); err != nil {
		return err
	}
	if err := l.refusals.open(newFiles(RefusalsPath(l.cfg.Path), l.cfg.RefusalFiles, refusalsPrefix)); err != nil {
		return errors.Join(err, l.changes.files.newest.Close())
	}
	return nil
}

// ErrNoRoom is the error of Reserve while too many records wait for the disk.
var ErrNoRoom = errors.New("the audit log has no room: its disk takes no records")

// Reserve keeps room for the record of a change that is about to begin. It waits for room until the context ends, for
// Patience at most. Each reserved room must be used by Change or given back by Release.
func (l *Log) Reserve(ctx context.Context) error {
	select {
	case l.rooms <- struct{}{}:
		return nil
	default:
	}
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case l.rooms <- struct{}{}:
		return nil
	case <-patience.C:
	case <-ctx.Done():
	}
	l.metrics.roomless.Inc()
	return ErrNoRoom
}

// Release gives a reserved room back.
func (l *Log) Release() { <-l.rooms }

// Change records a call that changes something, in a reserved room. It waits until the operating system has the record,
// for Patience at most. After that the record still waits for its write.
func (l *Log) Change(r Record) {
	r.Kind, r.Time = KindChange, Instant{l.cfg.Now()}
	written := make(chan struct{})
	l.changes.queue <- entry{r, written} // it holds as many records as there are rooms
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-written:
	case <-patience.C:
	case <-l.changes.done:
	}
}

// Refuse records a refused call, or counts it if one of the same source and reason was recorded lately. It does not
// wait.
func (l *Log) Refuse(r Record) {
	r.Kind, r.Time = KindRefusal, Instant{l.cfg.Now()}
	l.groups.add(r)
}

// Failing returns the reason for which records are not written, or nil.
func (l *Log) Failing() error {
	var copies error
	if l.copies != nil {
		copies = l.copies.health.failing()
	}
	return cmp.Or(l.changes.health.failing(), l.refusals.health.failing(), copies)
}

// Close writes the records that wait, and the counts of refusals, and closes the files. It gives up after some seconds
// if a disk hangs.
func (l *Log) Close() error {
	ended := make(chan error, 1)
	go func() {
		err := errors.Join(l.changes.close(), l.refusals.close())
		if l.copies != nil {
			l.copies.close()
		}
		ended <- err
	}()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-patience.C:
		return fmt.Errorf("audit: %d records of changes are not written: the disk hangs", len(l.changes.queue))
	}
}

// metrics holds the metrics of a log. They also work unregistered. Reading them waits for no disk.
type metrics struct {
	records  *prometheus.CounterVec // by kind
	lost     prometheus.Counter
	roomless prometheus.Counter
	waiting  prometheus.GaugeFunc
	failing  prometheus.GaugeFunc
}

func newMetrics(l *Log) *metrics {
	return &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_audit_records_total", Help: "Records of the audit log, by kind: change or refusal.",
		}, []string{"kind"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_audit_lost_records_total",
			Help: "Records that could not be written to the audit log, or to its copy on standard output.",
		}),
		roomless: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_audit_refused_changes_total",
			Help: "Changes that were not carried out because the audit log had no room for their records.",
		}),
		waiting: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "belfry_audit_waiting_records", Help: "Records of changes that wait for the disk of the audit log.",
		}, func() float64 { return float64(len(l.changes.queue)) }),
		failing: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "belfry_audit_failing", Help: "1 if the last write of the audit log failed, or has not ended for a second.",
		}, func() float64 {
			if l.Failing() != nil {
				return 1
			}
			return 0
		}),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.records, m.lost, m.roomless, m.waiting, m.failing} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
