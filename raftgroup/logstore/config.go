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

// Why Open refuses a folder, and how a write can end. Compare with errors.Is.
var (
	// ErrLostLog: a part of the group's log or votes is gone. The replica must not vote with the rest: remove it by a
	// membership change, empty the folder, and let it join again.
	ErrLostLog = errors.New("part of the group's record is lost")
	// ErrDamaged: a file is there and cannot be read as it was written. The way out is that of ErrLostLog.
	ErrDamaged = errors.New("the group's record is damaged")
	// ErrInUse: another process, or another part of this one, has the folder open.
	ErrInUse = errors.New("in use by another process")
	// ErrKindMismatch: the folder holds a log of the other kind.
	ErrKindMismatch = errors.New("the folder holds a log of another kind")
	// ErrWriteTimeout: a write took longer than Config.WriteTimeout. Whether it reached the disk is not known.
	ErrWriteTimeout = errors.New("the disk does not answer")
	// ErrClosed: the stores are closed.
	ErrClosed = errors.New("the log store is closed")
)

// Kind says what holds the log.
type Kind string

// The kinds of log. Terms and votes are in a bolt file either way.
const (
	WAL    Kind = "wal"    // raft-wal: appends to segments
	BoltDB Kind = "boltdb" // raft-boltdb: one B+ tree file
)

// ParseKind turns a flag's value into a Kind; the empty one is WAL.
func ParseKind(s string) (Kind, error) {
	switch k := Kind(s); k {
	case "":
		return WAL, nil
	case WAL, BoltDB:
		return k, nil
	}
	return "", fmt.Errorf("log store %q is neither %q nor %q", s, WAL, BoltDB)
}

// Defaults of Config.
const (
	DefaultWriteTimeout = 10 * time.Second
	defaultSegmentSize  = 4 << 20 // bytes; raft-wal allocates a whole segment ahead, for each group
	lockTimeout         = time.Second
)

// Config names the folder to open, and the facts about it that are known from elsewhere.
type Config struct {
	Dir  string // the group's own; made if it is absent
	Kind Kind   // default WAL

	// Existing: the node's own record says that Open has succeeded here before. Then a folder without log, or without
	// terms and votes, is ErrLostLog and not a new group.
	Existing bool

	// SnapshotIndex and SnapshotTerm are the last index in the newest valid snapshot, and the term of that entry; 0
	// if there is none. A log that ends before it, or that differs from it there, is emptied: Raft would have done so
	// after it installed the snapshot, had the process lived on. SnapshotTerm 0: not compared.
	SnapshotIndex uint64
	SnapshotTerm  uint64

	// Journal makes appends durable together with those of other groups. Nil: each is synced by itself. Only the wal uses
	// it.
	Journal *journal.Journal

	// WriteTimeout is how long one write may take, in time in which the process ran, before the disk counts as hung.
	// Default DefaultWriteTimeout.
	WriteTimeout time.Duration

	// Fatal is called once, after Open has returned, at the first write that fails or times out, on whichever goroutine
	// noticed. In production it ends the process and does not return; if it returns, every later write fails with the
	// same error. Required.
	Fatal func(error)

	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: none. Wrap it with the group's label, one per open group

	segmentSize int       // bytes; tests make it small
	wrapFiler   filerWrap // tests break the disk here
	sync        syncFile  // of the files that are found at the start
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
