package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"
)

// MaxLimit is the largest number of records in a Page.
const MaxLimit = 1000

// Query selects records of one log.
type Query struct {
	After string    // Next of an earlier page, or the id of a record: only later ones; empty: from the oldest
	Since time.Time // only records of this instant or later; zero: all
	Limit int       // 1 to MaxLimit
}

// Page holds records of one log, oldest first.
type Page struct {
	Lines [][]byte // the records as JSON, without line ends
	Next  string   // place up to which the log was read; the After of the next page
	More  bool     // further records are there
	Lost  []uint64 // missing records right before each line: not written, or removed with an old file
}

// Read returns the records that a query selects. A position in another log, which was in the same place before, selects
// all records. Read ends with the context, even if the disk hangs.
func (l *Log) Read(ctx context.Context, q Query) (Page, error) {
	at, err := parsePlace(q.After)
	if err != nil {
		return Page{}, err
	}
	select {
	case l.readers <- struct{}{}:
	case <-ctx.Done():
		return Page{}, fmt.Errorf("audit: other readers wait for the disk: %w", ctx.Err())
	}
	type answer struct {
		page Page
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-l.readers }()
		page, err := l.read(ctx, q, at)
		answers <- answer{page, err}
	}()
	select {
	case a := <-answers:
		return a.page, a.err
	case <-ctx.Done():
		return Page{}, fmt.Errorf("audit: the disk does not answer: %w", ctx.Err())
	}
}

// read merges the records of both journals after a place.
func (l *Log) read(ctx context.Context, q Query, at place) (Page, error) {
	after, pages := Cursor{}, map[string]Page{}
	for i, j := range []*journal{l.changes, l.refusals} {
		page, err := j.read(ctx, q, at[i])
		if err != nil {
			return Page{}, err
		}
		after[j.files.path], pages[j.files.path] = at[i].String(), page
	}
	whole, next := mergePages(after, pages, q.Limit)
	whole.Next = strings.Trim(next[l.changes.files.path]+"+"+next[l.refusals.files.path], "+")
	return whole, nil
}

// section is a file that is open for reading, with the lines that it had then.
type section struct {
	file   *os.File
	info   os.FileInfo
	first  position  // of its first record; zero: it is empty
	begins time.Time // of its first record; zero: it is empty
}

// read returns the records of one journal after a position. It uses the files beside the writer, and waits for none of
// its writes.
func (j *journal) read(ctx context.Context, q Query, after position) (Page, error) {
	next := j.upcoming()
	if after.log != next.log || after.number >= next.number {
		after = position{}
	}
	sections, err := openSections(j.files.path, after.number)
	defer closeAll(sections)
	if err != nil {
		return Page{}, err
	}
	s := scan{query: q, at: after, page: Page{Next: after.String()}, log: j.files.log}
	if after.log == "" {
		s.page.Next = position{next.log, 0}.String()
	}
	for i, part := range sections {
		if i+1 < len(sections) && !sections[i+1].begins.IsZero() && sections[i+1].begins.Before(q.Since) {
			s.at = position{} // all of its records are older, and none of them counts as missing
			continue
		}
		bound := j.upcoming() // no record that was in the files when they were opened has it
		if i+1 < len(sections) && sections[i+1].first.log != "" {
			bound = sections[i+1].first
		}
		if err := s.read(ctx, part, bound); err != nil || s.page.More {
			return s.page, err
		}
	}
	return s.page, nil
}

func closeAll(sections []section) {
	for _, s := range sections {
		_ = s.file.Close() // opened for reading
	}
}

// openSections opens the files of a journal with records after a number, the oldest first. The newest is opened before
// the others are listed. So if the writer turns the files over meanwhile, the newest is found in the list, and ends it.
func openSections(path string, after uint64) (open []section, err error) {
	newest, err := openSection(path)
	found := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	older, err := olderFiles(path)
	for i, o := range older {
		next := newest.first.number
		if i+1 < len(older) {
			next = older[i+1].first
		}
		if after > 0 && next > 0 && next <= after+1 {
			continue // all of its records are before the number
		}
		part, failed := openSection(o.path)
		switch {
		case errors.Is(failed, fs.ErrNotExist): // the writer has removed it as the oldest
		case failed != nil:
			err = errors.Join(err, failed)
		case found && os.SameFile(part.info, newest.info):
			closeAll([]section{part})
			return append(open, newest), err
		default:
			open = append(open, part)
		}
	}
	if found {
		open = append(open, newest)
	}
	return open, err
}

func openSection(path string) (section, error) {
	f, err := os.Open(path)
	if err != nil {
		return section{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return section{}, errors.Join(err, f.Close())
	}
	at, begins, err := firstRecord(f)
	if err != nil {
		return section{}, errors.Join(err, f.Close())
	}
	return section{f, info, at, begins}, nil
}

// scan reads a page.
type scan struct {
	query Query
	at    position // of the newest record read
	page  Page
	log   *slog.Logger
}

// read reads a file until the page is full. A line without an end is being written, or is torn. bound is the position
// of a later record.
func (s *scan) read(ctx context.Context, part section, bound position) error {
	for e, err := range entries(io.NewSectionReader(part.file, 0, part.info.Size()), bound) {
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return fmt.Errorf("%s: %w", part.file.Name(), err)
		}
		if e.damaged {
			s.log.Warn("a line of the audit log is damaged, and its record counts as missing", "path", part.file.Name(),
				"line", e.number)
			continue
		}
		if s.take(e); s.page.More {
			break
		}
	}
	return nil
}

// missing returns how many records are missing before a position.
func (s *scan) missing(at position) uint64 {
	if at.log != s.at.log || s.at.number == 0 {
		return 0
	}
	return at.number - s.at.number - 1
}

// take adds a record to the page if the query selects it.
func (s *scan) take(e logged) {
	switch {
	case e.at.log == s.at.log && e.at.number <= s.at.number:
		return
	case e.time.Before(s.query.Since):
	case len(s.page.Lines) == s.query.Limit:
		s.page.More = true
		return
	default:
		s.page.Lines = append(s.page.Lines, e.text)
		s.page.Lost = append(s.page.Lost, s.missing(e.at))
	}
	s.at, s.page.Next = e.at, e.at.String()
}
