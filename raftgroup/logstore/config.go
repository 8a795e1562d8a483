package logstore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/raftgroup/journal"
)

// The errors with which Open refuses a folder, and with which a write ends. Compare with errors.Is.
var (
	// ErrLostLog means that a part of the group's log or votes is gone. The replica must not vote with the rest. The
	// operator must remove it by a membership change, empty the folder, and let it join again.
	ErrLostLog = errors.New("part of the group's record is lost")
	// ErrDamaged means that a file cannot be read as it was written. The remedy is that of ErrLostLog.
	ErrDamaged = errors.New("the group's record is damaged")
	// ErrInUse means that another process, or another part of this one, has the folder open.
	ErrInUse = errors.New("in use by another process")
	// ErrKindMismatch means that the folder holds a log of the other kind.
	ErrKindMismatch = errors.New("the folder holds a log of another kind")
	// ErrWriteTimeout means that a write took longer than Config.WriteTimeout. It may or may not be on the disk.
	ErrWriteTimeout = errors.New("the disk does not answer")
	// ErrClosed means that the stores are closed.
	ErrClosed = errors.New("the log store is closed")
)

// Kind is the library that stores the log.
type Kind string

// The kinds of log. Either way a bolt file holds terms and votes.
const (
	WAL    Kind = "wal"    // raft-wal: appends to segments
	BoltDB Kind = "boltdb" // raft-boltdb: one B+ tree file
)

// ParseKind converts a flag's value into a Kind. The empty value is WAL.
func ParseKind(s string) (Kind, error) {
	switch k := Kind(s); k {
	case "":
		return WAL, nil
	case WAL, BoltDB:
		return k, nil
	}
	return "", fmt.Errorf("log store %q is neither %q nor %q", s, WAL, BoltDB)
}

// The defaults of Config.
const (
	DefaultWriteTimeout = 10 * time.Second
	defaultSegmentSize  = 4 << 20 // bytes; raft-wal allocates a whole segment ahead for each group
	lockTimeout         = time.Second
)

// Config names the folder to open and the caller's knowledge about it.
type Config struct {
	Dir  string // the group's own folder; made if absent
	Kind Kind   // default WAL

	// Existing is set if the node's own record shows an earlier successful Open here. A folder without log, or without
	// terms and votes, is then ErrLostLog and not a new group.
	Existing bool

	// SnapshotIndex and SnapshotTerm are the last index in the newest valid snapshot and the term of that entry; 0 if
	// there is none. Open empties a log that ends before that entry or differs from it there: Raft would have done so
	// after the install of the snapshot if the process had lived on. The term is not compared if SnapshotTerm is 0.
	SnapshotIndex uint64
	SnapshotTerm  uint64

	// Journal makes appends durable together with those of other groups. Nil: each append is synced by itself. Only the
	// wal uses it.
	Journal *journal.Journal

	// WriteTimeout is the running time of the process that one write may take before the disk counts as hung. Default
	// DefaultWriteTimeout.
	WriteTimeout time.Duration

	// Fatal is called once, after Open has returned, at the first write that fails or times out, on the goroutine that
	// noticed. In production it ends the process and does not return. If it returns, every later write fails with the
	// same error. Required.
	Fatal func(error)

	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: none. Wrap it with the group's label, one per open group

	segmentSize int       // bytes; tests make it small
	wrapFiler   filerWrap // lets tests break the disk
	sync        syncFile  // syncs the files found at the start
}

func (c Config) withDefaults() (Config, error) {
	kind, err := ParseKind(string(c.Kind))
	if err != nil {
		return c, err
	}
	c.Kind = kind
	if c.WriteTimeout == 0 {
		c.WriteTimeout = DefaultWriteTimeout
	}
	if c.sync == nil {
		c.sync = (*os.File).Sync
	}
	if c.segmentSize == 0 {
		c.segmentSize = defaultSegmentSize
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.validate()
}

func (c Config) validate() error {
	switch {
	case c.Dir == "":
		return errors.New("log store: no folder given")
	case c.Fatal == nil:
		return errors.New("log store: Fatal is not set")
	case c.WriteTimeout < 0:
		return fmt.Errorf("log store: write timeout %v is negative", c.WriteTimeout)
	}
	return nil
}
