package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/belfryhq/belfry/internal/gated"
	"github.com/belfryhq/belfry/raftgroup/durable"
	"github.com/belfryhq/belfry/raftgroup/journal"
)

// This test program can be a process that writes to a log until it is killed or its disk fails: another process breaks
// the disk meanwhile (chaos/lossyfs). Its arguments are a folder and the last index that it has reported as durable.
const (
	playVar     = "LOGSTORE_TEST_PLAYS" // its value: the kind of log, or playJournal
	playJournal = "journal"             // a wal with a journal
)

func TestMain(m *testing.M) {
	kind := os.Getenv(playVar)
	if kind == "" {
		gated.Rounds(15, 200) // each opens a log once at least, which syncs its files
		os.Exit(m.Run())
	}
	err := play(Kind(kind), os.Args[1], os.Args[2])
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, syscall.EIO) {
		os.Exit(exitFailedDisk)
	}
	os.Exit(1)
}

// exitFailedDisk is the exit code after a failure of the disk.
const exitFailedDisk = 3

type playing struct {
	dir  string
	s    *Stores
	rand *rand.Rand
	last uint64
}

func play(kind Kind, dir, acknowledged string) error {
	durable, err := strconv.ParseUint(acknowledged, 10, 64)
	if err != nil {
		return err
	}
	p := &playing{dir: dir, rand: rand.New(rand.NewPCG(durable, 0))}
	snapshot, err := p.snapshot()
	if err != nil {
		return err
	}
	cfg := Config{
		Dir: filepath.Join(dir, "log"), Kind: kind, Existing: durable > 0, SnapshotIndex: snapshot, SnapshotTerm: 1,
		segmentSize: 16 << 10, Fatal: func(error) { os.Exit(exitFailedDisk) },
	}
	if kind == playJournal {
		cfg.Kind = WAL
		cfg.Journal, err = journal.Open(journal.Config{
			Dir: filepath.Join(dir, "journal"), Root: dir, SegmentSize: 64 << 10, Fatal: cfg.Fatal,
		})
		if err != nil {
			return fmt.Errorf("after entry %d: %w", durable, err)
		}
	}
	p.s, err = Open(cfg)
	if err != nil {
		return fmt.Errorf("after entry %d: %w", durable, err)
	}
	if err := p.check(durable, snapshot); err != nil {
		return err
	}
	for {
		if err := p.step(); err != nil {
			return err
		}
	}
}

// check reads the whole log. Of the votes it only checks that they do not go back.
func (p *playing) check(durable, snapshot uint64) error {
	first, last, err := bounds(p.s.Log())
	if err != nil {
		return err
	}
	term, err := p.s.Stable().GetUint64(keyTerm)
	if err != nil && durable > 2*termEvery+mostAtOnce {
		return fmt.Errorf("after entry %d: the term: %w", durable, err)
	}
	if p.last = max(last, snapshot); p.last < durable || term+2*termEvery+mostAtOnce < durable || last > 0 && first > snapshot+1 {
		return fmt.Errorf("entry %d is durable: there is a snapshot to %d, entries %d to %d, and term %d",
			durable, snapshot, first, last, term)
	}
	for index := first; last > 0 && index <= last; index++ {
		if err := checkEntry(p.s, index); err != nil {
			return err
		}
	}
	return nil
}

func checkEntry(s *Stores, index uint64) error {
	got := *entry(index, 1)
	if err := s.Log().GetLog(index, &got); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	if string(got.Data) != string(content(index, 1)) {
		return fmt.Errorf("entry %d is another one", index)
	}
	return nil
}

var keyTerm = []byte("CurrentTerm")

const (
	termEvery = 20  // entries; a process killed before it writes a term begins with the next
	snapEvery = 200 // entries
	kept      = 50  // entries behind a snapshot

	mostAtOnce = 100 // entries; mostly far fewer
)

// step appends, sometimes writes a term or a snapshot, and then reports the durable index.
func (p *playing) step() error {
	before := p.last
	n := uint64(1 + p.rand.IntN(1+p.rand.IntN(mostAtOnce)))
	if err := p.s.Log().StoreLogs(entries(p.last+1, p.last+n, 1)); err != nil {
		return err
	}
	p.last += n
	if p.last/termEvery > before/termEvery {
		if err := p.s.Stable().SetUint64(keyTerm, p.last); err != nil {
			return err
		}
	}
	if p.last/snapEvery > before/snapEvery {
		if err := p.compact(); err != nil {
			return err
		}
	}
	_, err := fmt.Println(p.last)
	return err
}

func (p *playing) snapshot() (index uint64, err error) {
	b, err := os.ReadFile(filepath.Join(p.dir, "snapshot"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}

// compact writes a snapshot and then cuts the log before it.
func (p *playing) compact() error {
	path := filepath.Join(p.dir, "snapshot")
	if err := writeDurably(path, strconv.FormatUint(p.last, 10)); err != nil {
		return err
	}
	first, last, err := bounds(p.s.Log())
	if err != nil || last < first+kept {
		return err
	}
	return p.s.Log().DeleteRange(first, last-kept)
}

func writeDurably(path, text string) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(path+".new", path), durable.SyncDir(filepath.Dir(path)))
}
