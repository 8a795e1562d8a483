package audit

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// file is a file that takes records, as *os.File is one.
type file interface {
	io.WriteCloser
	io.ReaderAt
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
}

func openFile(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// files is the files of one journal. The newest is at path; each older one has the number of its first record behind
// it. One goroutine uses it at a time.
type files struct {
	path     string
	bytes    int64  // largest size of a file: a record beyond it begins another file
	most     int    // number of files, the newest included
	prefix   string // of the name of a log that begins here
	openFile func(path string) (file, error)
	log      *slog.Logger

	newest  file
	size    int64    // of the newest: whole lines only
	first   uint64   // number of the first record in the newest; 0: it is empty
	last    position // of the newest record of the log
	unclean bool     // the newest may have a part of a line behind size
	moved   bool     // another program has moved, removed or emptied the newest
}

// begin opens the files for writing. It cuts a torn line off, and sets lines at the end aside that are no records.
func (f *files) begin() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := f.open(); err != nil {
		return err
	}
	if err := f.recover(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.path, err), f.newest.Close())
	}
	return nil
}

func (f *files) close() error { return errors.Join(f.newest.Sync(), f.newest.Close()) }

// open opens the newest file, and makes its name durable.
func (f *files) open() error {
	newest, err := f.openFile(f.path)
	if err != nil {
		return err
	}
	info, err := newest.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", f.path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(f.path))
	}
	if err != nil {
		return errors.Join(err, newest.Close())
	}
	f.newest, f.size = newest, info.Size()
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// recover finds the place after the last record, and its position. Lines behind it are set aside; lines between records
// stay, and readers skip them.
func (f *files) recover() error {
	found, err := contentOf(f.newest, f.size)
	switch {
	case err != nil:
		return err
	case found.last.log == "" && !begun(f.newest):
		return errors.New("it has no record: it may be a file of another program")
	case found.lines > found.end:
		if err := f.setAside(found.end, found.lines-found.end); err != nil {
			return err
		}
	}
	if err := f.newest.Truncate(found.end); err != nil {
		return err
	}
	f.size, f.first, f.last = found.end, found.first.number, found.last
	older, err := olderFiles(f.path)
	for ; err == nil && f.last.log == "" && len(older) > 0; older = older[:len(older)-1] {
		f.last, err = lastOf(older[len(older)-1].path)
	}
	if f.last.log == "" {
		f.last.log = f.prefix + strings.ToLower(rand.Text()[:8])
	}
	return err
}

// begun reports whether a file is empty, or begins as a record does, torn or damaged behind its beginning, or with the
// zeros of a write that a loss of power has torn.
func begun(f io.ReaderAt) bool {
	begin := make([]byte, len(`{"id":"`))
	n, _ := f.ReadAt(begin, 0) // the file has just been read
	return n == 0 || begin[0] == 0 || strings.HasPrefix(`{"id":"`, string(begin[:n]))
}

// setAside copies the last lines, which a damaged disk or another program has made no records, to a file of their own.
// The log goes on: records of changes would be lost otherwise, with the node.
func (f *files) setAside(from, size int64) error {
	aside := DamagedPath(f.path)
	to, err := os.OpenFile(aside, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(f.newest, from, size))
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	f.log.Warn("the last lines of the audit log are no records, and are set aside",
		"path", f.path, "to", aside, "bytes", size)
	return nil
}

// DamagedPath returns the path of the lines of a file that were no records.
func DamagedPath(path string) string { return path + ".damaged" }

// Check returns an error if the file of changes or of refusals at a path has lines that are no records, or whose ids do
// not fit in with the others. A missing file is sound.
func Check(path string) error {
	found, err := contentAt(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && found.damaged > 0:
		err = fmt.Errorf("%s: lines that are no records: %d", path, found.damaged)
	}
	return err
}

// content is the records and lines of one file.
type content struct {
	first, last position // of its first and its last record; zero: it has none
	end         int64    // offset after the last record
	lines       int64    // offset after the last whole line: a torn one may follow
	damaged     int      // number of whole lines that are no records, or whose ids do not fit in with the others
}

// contentOf reads the first bytes of a file.
func contentOf(f io.ReaderAt, size int64) (content, error) {
	var c content
	for e, err := range entries(io.NewSectionReader(f, 0, size), position{}) {
		if err != nil {
			return c, err
		}
		c.lines = e.end
		if e.damaged {
			c.damaged++
			continue
		}
		if c.first.log == "" {
			c.first = e.at
		}
		c.last, c.end = e.at, c.lines
	}
	return c, nil
}

func contentAt(path string) (content, error) {
	f, err := os.Open(path)
	if err != nil {
		return content{}, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return content{}, err
	}
	return contentOf(f, info.Size())
}

func lastOf(path string) (position, error) {
	found, err := contentAt(path)
	return found.last, err
}

// firstRecord returns the position and the time of the first record of a file, or zeros if there is none.
func firstRecord(f io.ReaderAt) (position, time.Time, error) {
	for e, err := range entries(io.NewSectionReader(f, 0, math.MaxInt64), position{}) {
		if err != nil {
			return position{}, time.Time{}, err
		}
		if !e.damaged {
			return e.at, e.time, nil
		}
	}
	return position{}, time.Time{}, nil
}

// append writes the line of a record. After an error the line is not in the file.
func (f *files) append(line []byte, at position) error {
	if f.moved {
		if err := f.reopen(); err != nil {
			return err
		}
	}
	if f.unclean {
		if err := f.newest.Truncate(f.size); err != nil {
			return err
		}
		f.unclean = false
	}
	if f.size > 0 && f.size+int64(len(line)) > f.bytes {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	if _, err := f.newest.Write(line); err != nil {
		f.unclean = f.newest.Truncate(f.size) != nil
		return err
	}
	if f.size == 0 {
		f.first = at.number
	}
	f.size += int64(len(line))
	f.last = at
	return nil
}

// rotate removes the oldest files beyond the bound, and begins a new one. A crash at any step leaves a log that opens.
func (f *files) rotate() error {
	if err := f.trim(); err != nil {
		return err
	}
	if err := f.newest.Sync(); err != nil {
		return err
	}
	name := fmt.Sprintf("%s.%016d", f.path, f.first)
	if err := os.Rename(f.path, name); err != nil {
		return err
	}
	full := f.newest
	if err := f.open(); err != nil { // records go on into the full file, under its old name
		return errors.Join(err, os.Rename(name, f.path))
	}
	f.first = 0
	return full.Close()
}

// look finds out whether the newest file is still the one at path, with all of its lines.
func (f *files) look() {
	named, err := os.Stat(f.path)
	if err != nil {
		f.moved = errors.Is(err, fs.ErrNotExist)
		return
	}
	own, err := f.newest.Stat()
	f.moved = err == nil && (!os.SameFile(named, own) || own.Size() < f.size)
}

// reopen opens the file that is now at path, or makes one there. The records go on with their numbers.
func (f *files) reopen() error {
	before := f.newest
	if err := f.open(); err != nil {
		return err
	}
	begin, _, err := firstRecord(f.newest)
	f.first, f.unclean, f.moved = begin.number, false, false
	return errors.Join(err, before.Close())
}

// trim leaves as many older files as may stay beside a full one and a new one.
func (f *files) trim() error {
	older, err := olderFiles(f.path)
	for ; err == nil && len(older) > f.most-2; older = older[1:] {
		if err = os.Remove(older[0].path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// olderFile is a file that is full.
type olderFile struct {
	path  string
	first uint64 // number of its first record
}

// olderFiles returns the full files of the journal at a path, the oldest first.
func olderFiles(path string) ([]olderFile, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var found []olderFile
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		if first, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && len(digits) == 16 {
			found = append(found, olderFile{filepath.Join(filepath.Dir(path), e.Name()), first})
		}
	}
	slices.SortFunc(found, func(a, b olderFile) int { return cmp.Compare(a.first, b.first) })
	return found, nil
}
