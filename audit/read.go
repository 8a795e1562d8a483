package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	pages := map[string]Page{}
	for name, j := range map[string]*journal{"changes": l.changes, "refusals": l.refusals} {
		after := at.changes
		if j == l.refusals {
			after = at.refusals
		}
		page, err := j.read(ctx, q, after)
		if err != nil {
			return Page{}, err
		}
		pages[name] = page
	}
	merged := merge(pages, q.Limit)
	whole := Page{More: merged.more}
	for _, r := range merged.taken {
		whole.Lines, whole.Lost = append(whole.Lines, r.line), append(whole.Lost, r.lost)
		at = at.after(r.at)
	}
	for name, page := range pages {
		if !merged.left[name] {
			end, err := parsePosition(page.Next)
			if err != nil {
				return Page{}, err
			}
			at = at.after(end)
		}
	}
	whole.Next = at.String()
	return whole, nil
}

// section is the part of one file that holds whole lines.
type section struct {
	file   *os.File
	info   os.FileInfo
	size   int64
	begins time.Time // of its first record; zero: it is empty
}

// read returns the records of one journal after a position. It uses the files beside the writer, and waits for none of
// its writes.
func (j *journal) read(ctx context.Context, q Query, after position) (Page, error) {
	v := j.view()
	if after.log != v.last.log || after.number > v.last.number {
		after = position{}
	}
	sections, err := v.sections(j.files.path, after)
	defer closeAll(sections)
	if err != nil {
		return Page{}, err
	}
	s := scan{query: q, at: after, last: v.last, page: Page{Next: after.String()}}
	if after.log == "" {
		s.page.Next = position{v.last.log, 0}.String()
	}
	for i, part := range sections {
		if i+1 < len(sections) && !sections[i+1].begins.IsZero() && sections[i+1].begins.Before(q.Since) {
			s.at = position{} // all of its records are older, and none of them counts as missing
			continue
		}
		if err := s.read(ctx, part); err != nil || s.page.More {
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

// sections opens the files with records after a position. The writer may turn the files over meanwhile: the newest file
// is opened first, and left out where it is found again under its new name.
func (v view) sections(path string, after position) (open []section, err error) {
	newest, err := openSection(path)
	found := err == nil && os.SameFile(newest.info, v.newest)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err == nil && !found:
		closeAll([]section{newest})
	}
	older, err := olderFiles(path)
	for i, o := range older {
		next := v.first
		if i+1 < len(older) {
			next = older[i+1].first
		}
		if after.number > 0 && next > 0 && next <= after.number+1 {
			continue // all of its records are before the position
		}
		part, failed := openSection(o.path)
		switch {
		case errors.Is(failed, fs.ErrNotExist):
		case failed != nil:
			err = errors.Join(err, failed)
		case found && os.SameFile(part.info, newest.info):
			closeAll([]section{part})
		default:
			open = append(open, part)
		}
	}
	if found {
		newest.size = min(newest.size, v.size)
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
	_, begins, err := firstRecord(f)
	if err != nil {
		return section{}, errors.Join(err, f.Close())
	}
	return section{f, info, info.Size(), begins}, nil
}

// scan reads a page.
type scan struct {
	query Query
	at    position // of the newest record read
	last  position // of the newest record that is to be read
	page  Page
}

// read reads a file until the page is full.
func (s *scan) read(ctx context.Context, part section) error {
	lines := bufio.NewScanner(io.NewSectionReader(part.file, 0, part.size))
	lines.Buffer(nil, maxLine+1)
	for lines.Scan() && !s.page.More {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.take(lines.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", part.file.Name(), err)
		}
	}
	return lines.Err()
}

// missing returns how many records are missing before a position.
func (s *scan) missing(at position) uint64 {
	if at.log != s.at.log || s.at.number == 0 {
		return 0
	}
	return at.number - s.at.number - 1
}

// take adds a record to the page if the query selects it.
func (s *scan) take(line []byte) error {
	at, when, err := parseHead(line)
	switch {
	case err != nil:
		return err
	case at.log == s.at.log && at.number <= s.at.number:
		return nil
	case at.log == s.last.log && at.number > s.last.number:
		return nil // newer than the view: the next page has it
	case when.Before(s.query.Since):
	case len(s.page.Lines) == s.query.Limit:
		s.page.More = true
		return nil
	default:
		s.page.Lines = append(s.page.Lines, bytes.Clone(line))
		s.page.Lost = append(s.page.Lost, s.missing(at))
	}
	s.at, s.page.Next = at, at.String()
	return nil
}
