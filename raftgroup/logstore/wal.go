package logstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// walLog is a raft-wal log with its own meta database. The guard admits one write at a time.
type walLog struct {
	*wal.WAL
	meta  *guardedMeta
	filer *guardedFiler
	codec *codec
}

// openWAL opens the log in dir, which must exist, after it has repaired the remains of a crash.
func openWAL(dir string, cfg Config, g *guard) (*walLog, error) {
	meta := &guardedMeta{MetaStore: &metadb.BoltMetaDB{}, guard: g}
	var l *walLog
	err := withoutPanic(func() (err error) {
		if err = checkMeta(dir); err != nil {
			return err
		}
		l, err = openSegments(dir, cfg, g, meta)
		return err
	})
	if err != nil {
		return nil, errors.Join(damagedIfCorrupt(err), meta.Close())
	}
	return l, nil
}

// checkMeta checks all pages of the meta database, if it exists: it is a bolt file like the others.
func checkMeta(dir string) error {
	path := filepath.Join(dir, metadb.FileName)
	exists, err := fileExists(path)
	if !exists || err != nil {
		return err
	}
	if err := checkBolt(path); err != nil {
		return fmt.Errorf("opening %s: %w", path, boltError(err))
	}
	return nil
}

func openSegments(dir string, cfg Config, g *guard, meta *guardedMeta) (*walLog, error) {
	if err := recoverSegments(dir, meta); err != nil {
		return nil, err
	}
	var files types.SegmentFiler = segment.NewFiler(dir, flawUnsyncs(segmentVFS(cfg.Journal)))
	if cfg.wrapFiler != nil {
		files = cfg.wrapFiler(files)
	}
	filer := &guardedFiler{SegmentFiler: files, guard: g, removals: removals{guard: g}}
	c := &codec{}
	w, err := wal.Open(dir, wal.WithMetaStore(meta), wal.WithSegmentFiler(filer), wal.WithCodec(c),
		wal.WithSegmentSize(cfg.segmentSize), wal.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		return nil, fmt.Errorf("opening the log in %s: %w", dir, err)
	}
	return &walLog{WAL: w, meta: meta, filer: filer, codec: c}, nil
}

// damagedIfCorrupt wraps raft-wal's ErrCorrupt in ErrDamaged.
func damagedIfCorrupt(err error) error {
	if errors.Is(err, types.ErrCorrupt) && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// StoreLogs writes entries, each with the index that is durable before this write.
func (l *walLog) StoreLogs(entries []*raft.Log) error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	l.codec.begin(last, entries)
	return l.WAL.StoreLogs(entries)
}

func (l *walLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// GetLog hides deleted entries: raft-wal still finds them in the newest segment after its head was cut.
func (l *walLog) GetLog(index uint64, entry *raft.Log) error {
	first, err := l.FirstIndex()
	if err != nil {
		return err
	}
	if first == 0 || index < first {
		return raft.ErrLogNotFound
	}
	return l.WAL.GetLog(index, entry)
}

// DeleteRange first waits for the rotation that the last append began. raft-wal would otherwise run it on the segment
// that is the newest by then.
func (l *walLog) DeleteRange(first, last uint64) error {
	if err := l.filer.awaitRotation(); err != nil {
		return err
	}
	return l.WAL.DeleteRange(first, last)
}

func (l *walLog) Close() error {
	return errors.Join(l.WAL.Close(), l.meta.Close(), l.filer.removals.wait())
}
