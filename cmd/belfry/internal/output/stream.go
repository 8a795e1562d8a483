package output

import "io"

// chunk is the number of rows within which a Stream aligns columns.
const chunk = 1000

// Stream prints results as they come, since a list may be larger than memory.
type Stream[T any] struct {
	out    io.Writer
	values *Encoder // nil: for people
	table  *Table
	header func(*Table)
	row    func(*Table, T)
	n      int
}

// NewStream returns a stream in the form of the flags. header adds the columns of the table, before the first result,
// and row adds a result.
func NewStream[T any](out io.Writer, f *Flags, header func(*Table), row func(*Table, T)) *Stream[T] {
	s := &Stream[T]{out: out, table: f.NewTable(), header: header, row: row}
	if !f.IsTable() {
		s.values = f.NewEncoder(out)
	}
	return s
}

// Add prints a result, or keeps it for the next lines of the table.
func (s *Stream[T]) Add(v T) error {
	s.n++
	if s.values != nil {
		return s.values.Encode(v)
	}
	if s.n == 1 {
		s.header(s.table)
	}
	s.row(s.table, v)
	if s.n%chunk == 0 {
		return s.table.Print(s.out)
	}
	return nil
}

// Len returns the number of results.
func (s *Stream[T]) Len() int { return s.n }

// Flush prints the results that Add has kept.
func (s *Stream[T]) Flush() error { return s.table.Print(s.out) }
